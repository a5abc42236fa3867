// Apache Kafka's own classes write and read messages of magic 0 and 1: one JSON object a line, one answer a line.
//
//   {"do": "write", "magic", "codec", "stamp" (null: none), "wrapped", "records": [[offset, time, key, value], ...]}
//   {"do": "read", "data"}
//
// Bytes travel as hexadecimal digits.

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;

public class LegacySegments {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            JsonNode question = JSON.readTree(line);
            Object answer = question.get("do").asText().equals("write") ? write(question) : read(question);
            System.out.println(JSON.writeValueAsString(answer));
            System.out.flush();
        }
    }

    private static String write(JsonNode question) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        JsonNode records = question.get("records");
        int wrapped = question.get("wrapped").asInt();
        for (int from = 0; from < records.size(); from += wrapped) {
            int end = Math.min(from + wrapped, records.size());
            MemoryRecordsBuilder builder = builder(question, records.get(from).get(0).asLong());
            for (int at = from; at < end; at++) {
                JsonNode each = records.get(at);
                builder.appendWithOffset(
                    each.get(0).asLong(), each.get(1).asLong(), bytes(each.get(2)), bytes(each.get(3)));
            }
            ByteBuffer built = builder.build().buffer();
            byte[] data = new byte[built.remaining()];
            built.get(data);
            out.write(data);
        }
        return HEX.formatHex(out.toByteArray());
    }

    private static MemoryRecordsBuilder builder(JsonNode question, long baseOffset) {
        JsonNode stamp = question.get("stamp");
        TimestampType type = stamp.isNull() ? TimestampType.CREATE_TIME : TimestampType.LOG_APPEND_TIME;
        Compression compression = Compression.of(CompressionType.forName(question.get("codec").asText())).build();
        return MemoryRecords.builder(ByteBuffer.allocate(1 << 16), (byte) question.get("magic").asInt(), compression, type,
            baseOffset, stamp.isNull() ? RecordBatch.NO_TIMESTAMP : stamp.asLong());
    }

    private static List<List<Object>> read(JsonNode question) {
        List<List<Object>> found = new ArrayList<>();
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(question.get("data"))));
        for (RecordBatch batch : records.batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                record.ensureValid();
                boolean isStamped = batch.timestampType() == TimestampType.LOG_APPEND_TIME;
                found.add(Arrays.asList(record.offset(), record.timestamp(), isStamped, hex(record.key()), hex(record.value())));
            }
        }
        return found;
    }

    private static byte[] bytes(JsonNode digits) {
        return digits.isNull() ? null : HEX.parseHex(digits.asText());
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null)
            return null;
        byte[] data = new byte[buffer.remaining()];
        buffer.duplicate().get(data);
        return HEX.formatHex(data);
    }
}
