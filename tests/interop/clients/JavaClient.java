import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** The verbs of the tests, said in Apache's client. Lines of JSON come in, each is answered with one. */
public class JavaClient {
    private static final long WAIT_MS_MAX = 60_000;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String bootstrapServer;
    private final Admin admin;
    private final List<KafkaProducer<byte[], byte[]>> transactionals = new ArrayList<>();

    private JavaClient(String bootstrapServer) {
        this.bootstrapServer = bootstrapServer;
        this.admin = Admin.create(settings());
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // whatever a library prints must not pass for an answer
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        JavaClient client = new JavaClient(arguments[0]);
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Map<String, Object> reply = new HashMap<>();
            try {
                reply.put("result", client.answer(JSON.readTree(line)));
            } catch (Throwable error) {
                Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
                reply.put("error", cause.toString());
                reply.put("code", (int) Errors.forException(cause).code());
                error.printStackTrace();
            }
            answers.println(JSON.writeValueAsString(reply));
            answers.flush();
        }
        client.admin.close(Duration.ofSeconds(1));
        System.exit(0);
    }

    private Object answer(JsonNode request) throws Exception {
        String topic = request.path("topic").asText();
        TopicPartition partition = new TopicPartition(topic, request.path("partition").asInt());
        switch (request.get("verb").asText()) {
            case "version": return AppInfoParser.getVersion();
            case "produce": return produce(topic, request);
            case "consume": return consume(topic, request);
            case "group_consume": return groupConsume(topic, request);
            case "txn_open": return openTransactional(request);
            case "txn_begin": transactional(request).beginTransaction(); return null;
            case "txn_send": sendAll(transactional(request), topic, request.get("file").asText()); return null;
            case "txn_offsets": sendOffsets(topic, request); return null;
            case "txn_commit": transactional(request).commitTransaction(); return null;
            case "txn_abort": transactional(request).abortTransaction(); return null;
            case "txn_close": transactional(request).close(Duration.ofSeconds(1)); return null;
            case "create_topic": return createTopic(topic, request);
            case "delete_topic": return admin.deleteTopics(List.of(topic)).all().get();
            case "list_topics": return admin.listTopics().names().get();
            case "partition_count":
                return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
            case "topic_configs": return topicConfigs(topic);
            case "alter_config": return alterConfig(topic, request);
            case "create_partitions":
                NewPartitions more = NewPartitions.increaseTo(request.get("count").asInt());
                return admin.createPartitions(Map.of(topic, more)).all().get();
            case "delete_records":
                RecordsToDelete old = RecordsToDelete.beforeOffset(request.get("before").asLong());
                return admin.deleteRecords(Map.of(partition, old)).all().get();
            case "describe_cluster": return describeCluster();
            case "watermarks": return watermarks(partition);
            case "offset_for_time": return offsetForTime(partition, request.get("timestamp").asLong());
            case "offset_of_newest":
                return admin.listOffsets(Map.of(partition, OffsetSpec.maxTimestamp())).all().get().get(partition).offset();
            case "log_dir_sizes": return logDirSizes(topic);
            case "active_producers":
                return admin.describeProducers(List.of(partition)).all().get().get(partition).activeProducers().size();
            default: return new JavaAdministration(admin).answer(request);
        }
    }

    private Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrapServer);
        return settings;
    }

    // --- produce and consume

    private Object produce(String topic, JsonNode request) throws Exception {
        Properties settings = settings();
        settings.put("compression.type", request.get("codec").asText());
        settings.put("acks", request.get("acks").asText());
        settings.put("enable.idempotence", request.get("idempotent").asText());
        settings.put("max.request.size", "1048576");
        settings.put("linger.ms", "5");
        boolean isTransactional = !request.get("transactional_id").isNull();
        if (isTransactional) {
            settings.put("enable.idempotence", "true");
            settings.put("transactional.id", request.get("transactional_id").asText());
        }
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            if (isTransactional) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            sendAll(producer, topic, request.get("file").asText());
            if (isTransactional && request.get("commit").asBoolean()) {
                producer.commitTransaction();
            } else if (isTransactional) {
                producer.abortTransaction();
            }
        }
        return null;
    }

    private int openTransactional(JsonNode request) {
        Properties settings = settings();
        settings.put("enable.idempotence", "true");
        boolean isTransactional = !request.get("transactional_id").isNull();
        if (isTransactional) {
            settings.put("transactional.id", request.get("transactional_id").asText());
            settings.put("transaction.timeout.ms", request.get("timeout_ms").asText());
        }
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        transactionals.add(producer);
        if (isTransactional) {
            producer.initTransactions();
        }
        return transactionals.size() - 1;
    }

    private KafkaProducer<byte[], byte[]> transactional(JsonNode request) {
        return transactionals.get(request.get("txn").asInt());
    }

    private void sendOffsets(String topic, JsonNode request) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        request.get("offsets").fields().forEachRemaining(each -> offsets.put(
            new TopicPartition(topic, Integer.parseInt(each.getKey())), new OffsetAndMetadata(each.getValue().asLong())));
        transactional(request).sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(request.get("group").asText()));
    }

    private void sendAll(KafkaProducer<byte[], byte[]> producer, String topic, String file) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (DataInputStream source = new DataInputStream(new BufferedInputStream(new FileInputStream(file)))) {
            while (true) {
                int asked;
                try {
                    asked = source.readInt();
                } catch (EOFException end) {
                    break;
                }
                long timestamp = source.readLong();
                source.readLong(); // the offset is the broker's to give
                byte[] key = readBytes(source);
                byte[] value = readBytes(source);
                List<Header> headers = new ArrayList<>();
                for (int left = source.readInt(); left > 0; left--) {
                    headers.add(new RecordHeader(new String(readBytes(source), StandardCharsets.UTF_8), readBytes(source)));
                }
                Integer partition = asked < 0 ? null : asked; // which leaves it to the partitioner
                Long when = timestamp < 0 ? null : timestamp;
                sent.add(producer.send(new ProducerRecord<>(topic, partition, when, key, value, headers)));
            }
        }
        producer.flush();
        for (Future<RecordMetadata> each : sent) {
            each.get();
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer(Properties settings) {
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private Object consume(String topic, JsonNode request) throws Exception {
        Properties settings = settings();
        settings.put("isolation.level", request.get("isolation").asText());
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
            Map<TopicPartition, Long> starts = new HashMap<>();
            for (Iterator<Map.Entry<String, JsonNode>> each = request.get("starts").fields(); each.hasNext(); ) {
                Map.Entry<String, JsonNode> start = each.next();
                starts.put(new TopicPartition(topic, Integer.parseInt(start.getKey())), start.getValue().asLong());
            }
            consumer.assign(starts.keySet());
            starts.forEach(consumer::seek);
            return take(consumer, request);
        }
    }

    private Object groupConsume(String topic, JsonNode request) throws Exception {
        Properties settings = settings();
        settings.put("group.id", request.get("group").asText());
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
            consumer.subscribe(List.of(topic));
            Object taken = take(consumer, request);
            consumer.commitSync();
            return taken;
        }
    }

    private Object take(KafkaConsumer<byte[], byte[]> consumer, JsonNode request) throws IOException {
        int wanted = request.get("count").asInt();
        long deadline = System.currentTimeMillis() + WAIT_MS_MAX;
        FileOutputStream file = new FileOutputStream(request.get("file").asText());
        try (DataOutputStream target = new DataOutputStream(new BufferedOutputStream(file))) {
            for (int taken = 0; taken < wanted && System.currentTimeMillis() < deadline; ) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    if (taken++ < wanted) {
                        write(target, record);
                    }
                }
            }
        }
        return null;
    }

    private static void write(DataOutputStream target, ConsumerRecord<byte[], byte[]> record) throws IOException {
        target.writeInt(record.partition());
        target.writeLong(record.timestamp());
        target.writeLong(record.offset());
        writeBytes(target, record.key());
        writeBytes(target, record.value());
        target.writeInt(record.headers().toArray().length);
        for (Header header : record.headers()) {
            writeBytes(target, header.key().getBytes(StandardCharsets.UTF_8));
            writeBytes(target, header.value());
        }
    }

    private static byte[] readBytes(DataInputStream source) throws IOException {
        int size = source.readInt();
        return size < 0 ? null : source.readNBytes(size);
    }

    private static void writeBytes(DataOutputStream target, byte[] value) throws IOException {
        target.writeInt(value == null ? -1 : value.length);
        if (value != null) {
            target.write(value);
        }
    }

    // --- administration

    private Object createTopic(String topic, JsonNode request) throws Exception {
        NewTopic wanted = new NewTopic(
            topic, request.get("partitions").asInt(), (short) request.get("replicas").asInt());
        Map<String, String> configs = new HashMap<>();
        request.get("configs").fields().forEachRemaining(each -> configs.put(each.getKey(), each.getValue().asText()));
        return admin.createTopics(List.of(wanted.configs(configs))).all().get();
    }

    private Object topicConfigs(String topic) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Map<String, String> found = new HashMap<>();
        for (ConfigEntry each : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
            found.put(each.name(), each.value());
        }
        return found;
    }

    private Object alterConfig(String topic, JsonNode request) throws Exception {
        ConfigEntry entry = new ConfigEntry(request.get("key").asText(), request.get("value").asText());
        Collection<AlterConfigOp> set = List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return admin.incrementalAlterConfigs(Map.of(resource, set)).all().get();
    }

    private Object describeCluster() throws Exception {
        List<String> found = new ArrayList<>();
        for (Node node : admin.describeCluster().nodes().get()) {
            found.add(node.host() + ":" + node.port());
        }
        return found;
    }

    private Object watermarks(TopicPartition partition) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings())) {
            long start = consumer.beginningOffsets(List.of(partition)).get(partition);
            return List.of(start, consumer.endOffsets(List.of(partition)).get(partition));
        }
    }

    private Object offsetForTime(TopicPartition partition, long timestamp) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings())) {
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, timestamp)).get(partition);
            return found == null ? null : found.offset();
        }
    }

    private Object logDirSizes(String topic) throws Exception {
        Map<Integer, Long> sizes = new HashMap<>();
        Collection<Integer> brokers = new ArrayList<>();
        for (Node node : admin.describeCluster().nodes().get()) {
            brokers.add(node.id());
        }
        for (Map<String, LogDirDescription> directories : admin.describeLogDirs(brokers).allDescriptions().get().values()) {
            for (LogDirDescription directory : directories.values()) {
                directory.replicaInfos().forEach((partition, info) -> {
                    if (partition.topic().equals(topic)) {
                        sizes.put(partition.partition(), info.size());
                    }
                });
            }
        }
        return sizes;
    }
}
