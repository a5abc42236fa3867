import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.RequestAndSize;

/**
 * How Apache Kafka refuses requests.
 *
 * Reads lines "key version error hex" and answers each with the body of the response that the request makes for that error,
 * in hex. "unknown" when this Kafka lacks the API or the version, "null" when it would not answer, "error ..." when it fails.
 */
public class Refusals {
    private static final HexFormat HEX = HexFormat.of();
    private static final Method PARSE = Arrays.stream(AbstractRequest.class.getMethods())
        .filter(each -> each.getName().equals("parseRequest") && each.getParameterCount() == 3)
        .findFirst().get();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            short error = Short.parseShort(words[2]);
            System.out.println(answer(Short.parseShort(words[0]), Short.parseShort(words[1]), error, HEX.parseHex(words[3])));
        }
    }

    private static String answer(short key, short version, short error, byte[] data) {
        try {
            ApiKeys api = ApiKeys.hasId(key) ? ApiKeys.forId(key) : null;
            if (api == null || version < api.messageType.lowestSupportedVersion()
                || version > api.messageType.highestSupportedVersion(true)) {
                return "unknown";
            }
            AbstractResponse response = parse(api, version, data).getErrorResponse(0, Errors.forCode(error).exception("why"));
            return response == null ? "null" : HEX.formatHex(write(response.data(), version));
        } catch (ReflectiveOperationException | RuntimeException problem) {
            return ("error " + problem + " " + problem.getCause()).replace('\n', ' ');
        }
    }

    private static AbstractRequest parse(ApiKeys api, short version, byte[] data) throws ReflectiveOperationException {
        ByteBuffer buffer = ByteBuffer.wrap(data);
        boolean takesBuffer = PARSE.getParameterTypes()[2] == ByteBuffer.class; // Kafka 3.9; later ones take what reads it
        return ((RequestAndSize) PARSE.invoke(null, api, version, takesBuffer ? buffer : new ByteBufferAccessor(buffer))).request;
    }

    private static byte[] write(ApiMessage message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }
}
