import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

/**
 * How Apache Kafka's consumers assign partitions.
 *
 * Reads lines "assignor topic:count,... member:instance:subscription ..." where the subscription is the blob in hex, as it
 * travels in JoinGroup. Answers with "member:assignment ...", the blobs of SyncGroup in hex, by member.
 */
public class Assignors {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(answer(line.split(" ", -1)));
        }
    }

    private static String answer(String[] words) {
        Map<String, Subscription> members = new HashMap<>();
        for (int i = 2; i < words.length; i++) {
            String[] parts = words[i].split(":", -1);
            Subscription subscription = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(HEX.parseHex(parts[2])));
            subscription.setGroupInstanceId(parts[1].isEmpty() ? Optional.empty() : Optional.of(parts[1]));
            members.put(parts[0], subscription);
        }
        Map<String, ConsumerPartitionAssignor.Assignment> assignments =
            assignor(words[0]).assign(cluster(words[1]), new GroupSubscription(members)).groupAssignment();
        List<String> answers = new ArrayList<>();
        for (Map.Entry<String, ConsumerPartitionAssignor.Assignment> each : new TreeMap<>(assignments).entrySet()) {
            ByteBuffer blob = ConsumerProtocol.serializeAssignment(each.getValue());
            byte[] bytes = new byte[blob.remaining()];
            blob.get(bytes);
            answers.add(each.getKey() + ":" + HEX.formatHex(bytes));
        }
        return String.join(" ", answers);
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    private static Cluster cluster(String topics) {
        Node node = new Node(0, "localhost", 9092);
        Set<PartitionInfo> partitions = new HashSet<>();
        for (String topic : topics.isEmpty() ? new String[0] : topics.split(",")) {
            String[] parts = topic.split(":");
            for (int i = 0; i < Integer.parseInt(parts[1]); i++) {
                partitions.add(new PartitionInfo(parts[0], i, node, new Node[] {node}, new Node[] {node}));
            }
        }
        return new Cluster("c", List.of(node), partitions, Collections.emptySet(), Collections.emptySet());
    }
}
