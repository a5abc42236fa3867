import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a consumer group, said in Apache's client: see members.py for the lines that come in and go out. */
public class JavaMember implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final PrintStream answers;
    private final KafkaConsumer<String, String> consumer;
    private final Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
    private Set<TopicPartition> shown = Set.of();
    private int rebalances = 0;
    private int rebalancesShown = 0;

    private JavaMember(String bootstrapServer, JsonNode spec, PrintStream answers) throws Exception {
        this.answers = answers;
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrapServer);
        settings.put("group.id", spec.get("group").asText());
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("metadata.max.age.ms", "500");
        spec.get("settings").fields().forEachRemaining(each -> settings.put(each.getKey(), each.getValue().asText()));
        String strategy = "partition.assignment.strategy";
        settings.computeIfPresent(strategy, (key, name) -> ASSIGNORS.get(name));
        this.consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        if (spec.get("pattern").isNull()) {
            List<String> topics = new ArrayList<>();
            spec.get("topics").forEach(each -> topics.add(each.asText()));
            consumer.subscribe(topics, this);
        } else {
            subscribe(spec.get("pattern").asText());
        }
    }

    /** The broker matches the pattern. Not in every client that this program is compiled for. */
    private void subscribe(String pattern) throws Exception {
        Class<?> type = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
        Object wanted = type.getConstructor(String.class).newInstance(pattern);
        KafkaConsumer.class.getMethod("subscribe", type, ConsumerRebalanceListener.class).invoke(consumer, wanted, this);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
        // what is to be committed has been
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
        rebalances++;
    }

    private void tell(String what, Object value) throws Exception {
        tell(Map.of(what, value));
    }

    private void tell(Map<String, Object> what) throws Exception {
        answers.println(JSON.writeValueAsString(what));
        answers.flush();
    }

    private void poll() throws Exception {
        List<Object> rows = new ArrayList<>();
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
            rows.add(List.of(record.topic(), record.partition(), record.offset(), record.value()));
            TopicPartition place = new TopicPartition(record.topic(), record.partition());
            positions.put(place, new OffsetAndMetadata(record.offset() + 1));
        }
        Set<TopicPartition> has = Set.copyOf(consumer.assignment());
        if (rebalances != rebalancesShown || !has.equals(shown)) {
            rebalancesShown = rebalances;
            shown = has;
            List<Object> places = new ArrayList<>();
            has.forEach(each -> places.add(List.of(each.topic(), each.partition())));
            tell(Map.of("assigned", places, "rebalances", rebalances));
        }
        if (!rows.isEmpty()) {
            tell("records", rows);
        }
    }

    private void commit() throws Exception {
        Map<TopicPartition, OffsetAndMetadata> ours = new HashMap<>(positions);
        ours.keySet().retainAll(shown);
        consumer.commitSync(ours);
        tell("committed", true);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // whatever a library prints must not pass for an answer
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        JavaMember member = new JavaMember(arguments[0], JSON.readTree(lines.readLine()), answers);
        ConcurrentLinkedQueue<String> verbs = new ConcurrentLinkedQueue<>();
        Thread listener = new Thread(() -> {
            try {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    verbs.add(JSON.readTree(line).get("verb").asText());
                }
            } catch (Exception error) {
                error.printStackTrace();
            }
            verbs.add("close");
        });
        listener.setDaemon(true);
        listener.start();
        try {
            while (true) {
                member.poll();
                String verb = verbs.poll();
                if ("close".equals(verb)) {
                    break;
                } else if (verb != null) {
                    member.commit();
                }
            }
        } catch (Exception error) {
            error.printStackTrace();
            member.tell("failed", error.toString());
        }
        member.consumer.close();
        System.exit(0);
    }
}
