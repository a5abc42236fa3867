// Apache Kafka's own storage, asked over stdin and stdout: one JSON object a line, one answer a line.
//
//   {"do": "clean", "directory", "config", "map_bytes", "first_dirty", "end", "now"}  run its Cleaner once
//   {"do": "cleanable", "directory", "config", "checkpoint", "now"}                   what its cleaner would choose
//   {"do": "recover", "directory", "config", "now"}                                   open it as after a crash
//   {"do": "dump", "directory"}                                                       every batch and aborted transaction
//   {"do": "tool", "arguments"}                                                       DumpLogSegments, and what it prints
//
// It lives in Kafka's package because half of what it calls is visible there only.

package org.apache.kafka.storage.internals.log;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ScheduledFuture;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;
import org.apache.kafka.tools.DumpLogSegments;

public class KafkaStorage {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int IO_BUFFER_BYTES = 1 << 16;
    private static final int BATCH_BYTES_MAX = 1 << 24;

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        Exit.setExitProcedure((status, message) -> {
            throw new IllegalStateException("exit " + status + ": " + message);
        });
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            Object answer;
            try {
                answer = answer(JSON.readTree(line));
            } catch (Throwable error) {
                StringWriter trace = new StringWriter();
                error.printStackTrace(new PrintWriter(trace));
                answer = Map.of("error", trace.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
    }

    private static Object answer(JsonNode question) throws Exception {
        return switch (question.get("do").asText()) {
            case "clean" -> clean(question);
            case "cleanable" -> cleanable(question);
            case "recover" -> recover(question);
            case "dump" -> dump(new File(question.get("directory").asText()));
            case "tool" -> tool(question);
            default -> throw new IllegalArgumentException(question.toString());
        };
    }

    private static Map<String, Object> clean(JsonNode question) throws Exception {
        Time time = timeOf(question);
        try (UnifiedLog log = open(question, time, true)) {
            OffsetMap map = new SkimpyOffsetMap(question.get("map_bytes").asInt());
            Throttler throttler = new Throttler(Double.MAX_VALUE, 1000, "none", "none", Time.SYSTEM);
            Cleaner cleaner = new Cleaner(0, map, IO_BUFFER_BYTES, BATCH_BYTES_MAX, 0.9, throttler, time, partition -> { });
            LogToClean job = new LogToClean(
                log, question.get("first_dirty").asLong(), question.get("end").asLong(), false);
            Map.Entry<Long, CleanerStats> done = cleaner.clean(job);
            CleanerStats stats = done.getValue();
            return Map.of("end_offset", done.getKey(), "records_read", stats.messagesRead(),
                "records_kept", stats.messagesWritten(), "bytes_read", stats.bytesRead(),
                "bytes_kept", stats.bytesWritten(), "records_mapped", stats.mapMessagesRead());
        }
    }

    private static Map<String, Object> cleanable(JsonNode question) throws Exception {
        try (UnifiedLog log = open(question, timeOf(question), true)) {
            JsonNode checkpoint = question.get("checkpoint");
            Optional<Long> cleaned = checkpoint.isNull() ? Optional.empty() : Optional.of(checkpoint.asLong());
            LogCleanerManager.OffsetsToClean offsets =
                LogCleanerManager.cleanableOffsets(log, cleaned, question.get("now").asLong());
            LogToClean job =
                new LogToClean(log, offsets.firstDirtyOffset(), offsets.firstUncleanableDirtyOffset(), false);
            Method delay =
                LogCleanerManager.class.getDeclaredMethod("maxCompactionDelay", UnifiedLog.class, long.class, long.class);
            delay.setAccessible(true);
            Long late = (Long) delay.invoke(null, log, job.firstDirtyOffset(), question.get("now").asLong());
            return Map.of("first_dirty_offset", job.firstDirtyOffset(), "end_offset", job.firstUncleanableOffset(),
                "clean_bytes", job.cleanBytes(), "cleanable_bytes", job.cleanableBytes(), "ratio", job.totalBytes() == 0 ? 0 : job.cleanableRatio(),
                "is_overdue", late > 0);
        }
    }

    private static Map<String, Object> recover(JsonNode question) throws Exception {
        try (UnifiedLog log = open(question, timeOf(question), false)) {
            return Map.of("end_offset", log.logEndOffset(), "segments", log.logSegments().size(),
                "producers", log.producerStateManager().activeProducers().size(),
                "aborted", log.collectAbortedTransactions(0, log.logEndOffset()).size());
        }
    }

    private static UnifiedLog open(JsonNode question, Time time, boolean isClean) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        question.get("config").properties().forEach(each -> settings.put(each.getKey(), each.getValue().asText()));
        if (settings.containsKey("segment.bytes"))  // which has to be a mebibyte at least
            settings.put("internal.segment.bytes", settings.remove("segment.bytes"));
        settings.put("file.delete.delay.ms", "0");
        Object nothing = Proxy.newProxyInstance(KafkaStorage.class.getClassLoader(),
            new Class<?>[] {ScheduledFuture.class}, (proxy, method, values) -> false);
        Scheduler atOnce = (Scheduler) Proxy.newProxyInstance(
            KafkaStorage.class.getClassLoader(), new Class<?>[] {Scheduler.class}, (proxy, method, values) -> {
                boolean isOnce = method.getName().equals("scheduleOnce")
                    || method.getName().equals("schedule") && (Long) values[3] < 0;
                if (isOnce)
                    ((Runnable) values[1]).run();
                return nothing;
            });
        UnifiedLog log = UnifiedLog.create(
            new File(question.get("directory").asText()), new LogConfig(settings), 0L, 0L, atOnce,
            new BrokerTopicStats(false), time, 900_000, new ProducerStateManagerConfig(Integer.MAX_VALUE, false), 600_000,
            new LogDirFailureChannel(1), isClean, Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        return log;
    }

    private static Time timeOf(JsonNode question) {
        Long now = question.get("now").asLong();
        return (Time) Proxy.newProxyInstance(KafkaStorage.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, values) -> method.getName().equals("milliseconds") ? now : method.invoke(Time.SYSTEM, values));
    }

    private static List<Object> dump(File directory) throws Exception {
        List<Object> segments = new ArrayList<>();
        File[] files = directory.listFiles((where, name) -> name.endsWith(".log"));
        Arrays.sort(files);
        for (File file : files) {
            List<Object> batches = new ArrayList<>();
            try (FileRecords records = FileRecords.open(file, false)) {
                int read = 0;
                for (RecordBatch batch : records.batches()) {
                    batches.add(describe(batch));
                    read += batch.sizeInBytes();
                }
                if (read != records.sizeInBytes())
                    throw new IllegalStateException(file + " has bytes behind its last batch");
            }
            long baseOffset = Long.parseLong(file.getName().substring(0, 20));
            List<Object> aborted = new ArrayList<>();
            File txnIndex = new File(directory, file.getName().replace(".log", ".txnindex"));
            if (txnIndex.exists()) {
                try (TransactionIndex index = new TransactionIndex(baseOffset, txnIndex)) {
                    index.sanityCheck();
                    for (AbortedTxn txn : index.allAbortedTxns())
                        aborted.add(List.of(txn.producerId(), txn.firstOffset(), txn.lastOffset(), txn.lastStableOffset()));
                }
            }
            segments.add(Map.of("base_offset", baseOffset, "batches", batches, "aborted", aborted));
        }
        return segments;
    }

    private static Map<String, Object> describe(RecordBatch batch) {
        batch.ensureValid();
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("base_offset", batch.baseOffset());
        shown.put("last_offset", batch.lastOffset());
        shown.put("magic", (int) batch.magic());
        shown.put("leader_epoch", batch.partitionLeaderEpoch());
        shown.put("codec", batch.compressionType().name);
        shown.put("timestamp_type", batch.timestampType().name);
        shown.put("max_timestamp", batch.maxTimestamp());
        shown.put("producer", List.of(batch.producerId(), (int) batch.producerEpoch(), batch.baseSequence(), batch.lastSequence()));
        shown.put("is_transactional", batch.isTransactional());
        shown.put("is_control", batch.isControlBatch());
        shown.put("delete_horizon", batch.deleteHorizonMs().isPresent() ? batch.deleteHorizonMs().getAsLong() : null);
        List<Object> records = new ArrayList<>();
        for (Record record : batch) {
            record.ensureValid();
            List<Object> headers = new ArrayList<>();
            for (Header header : record.headers())
                headers.add(Arrays.asList(header.key(), header.value() == null ? null : HexFormat.of().formatHex(header.value())));
            records.add(Arrays.asList(record.offset(), record.timestamp(), hex(record.key()), hex(record.value()), headers));
        }
        shown.put("records", records);
        return shown;
    }

    private static String hex(ByteBuffer bytes) {
        return bytes == null ? null : HexFormat.of().formatHex(Utils.toArray(bytes));
    }

    private static Map<String, Object> tool(JsonNode question) throws Exception {
        List<String> arguments = new ArrayList<>();
        question.get("arguments").forEach(each -> arguments.add(each.asText()));
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream before = System.out;
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        try {
            DumpLogSegments.main(arguments.toArray(new String[0]));
        } finally {
            System.setOut(before);
        }
        return Map.of("printed", printed.toString(StandardCharsets.UTF_8));
    }
}
