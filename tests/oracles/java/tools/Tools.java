import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Apache's command line tools one after the other, in one JVM. A line of stdin is the name of a class and its
 * arguments, with U+001F between them; the answer is "CODE OUT ERR" in a line, then OUT and ERR bytes.
 */
public class Tools {
    private static volatile CompletableFuture<Integer> running;

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\u001f", -1);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, "UTF-8"));
            System.setErr(new PrintStream(err, true, "UTF-8"));
            running = new CompletableFuture<>();
            Thread tool = new Thread(() -> run(words[0], Arrays.copyOfRange(words, 1, words.length)));
            tool.setDaemon(true);
            tool.start();
            int code = running.get();
            System.out.flush();
            System.err.flush();
            byte[] printed = out.toByteArray();
            byte[] complained = err.toByteArray();
            answers.printf("%d %d %d%n", code, printed.length, complained.length);
            answers.write(printed);
            answers.write(complained);
            answers.flush();
        }
    }

    /** Whoever exits must not go on: its thread stays here for good. */
    private static void end(int code) {
        running.complete(code);
        while (true) {
            LockSupport.park();
        }
    }

    private static void run(String name, String[] words) {
        CompletableFuture<Integer> mine = running;
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) words);
            mine.complete(0);
        } catch (java.lang.reflect.InvocationTargetException error) {
            error.getCause().printStackTrace();
            mine.complete(1);
        } catch (ReflectiveOperationException error) {
            error.printStackTrace();
            mine.complete(127);
        }
    }
}
