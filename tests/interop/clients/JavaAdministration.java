import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;

/** The verbs of JavaClient that only a cluster of several brokers has a use for. */
class JavaAdministration {
    private final Admin admin;

    JavaAdministration(Admin admin) {
        this.admin = admin;
    }

    Object answer(JsonNode request) throws Exception {
        String topic = request.path("topic").asText();
        TopicPartition partition = new TopicPartition(topic, request.path("partition").asInt());
        switch (request.get("verb").asText()) {
            case "cluster": return cluster();
            case "offsets": return offsets(topic);
            case "replicas": return replicas(topic);
            case "reassign": return reassign(partition, request.get("replicas"));
            case "reassigned": return places(admin.listPartitionReassignments().reassignments().get().keySet());
            case "elect_leader": return admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).all().get();
            case "log_dirs": return logDirs();
            default: throw new IllegalArgumentException("no such verb: " + request);
        }
    }

    private Object cluster() throws Exception {
        DescribeClusterResult described = admin.describeCluster();
        return Map.of(
            "id", described.clusterId().get(),
            "controller", described.controller().get().id(),
            "brokers", ids(described.nodes().get()));
    }

    private static List<Integer> ids(Collection<Node> nodes) {
        List<Integer> found = new ArrayList<>();
        nodes.forEach(node -> found.add(node.id()));
        return found;
    }

    private static List<Object> places(Collection<TopicPartition> partitions) {
        List<Object> found = new ArrayList<>();
        partitions.forEach(each -> found.add(List.of(each.topic(), each.partition())));
        return found;
    }

    private List<TopicPartitionInfo> partitions(String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions();
    }

    private Map<TopicPartition, ListOffsetsResultInfo> offsets(String topic, OffsetSpec which) throws Exception {
        Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
        for (TopicPartitionInfo each : partitions(topic)) {
            wanted.put(new TopicPartition(topic, each.partition()), which);
        }
        return admin.listOffsets(wanted).all().get();
    }

    private Object offsets(String topic) throws Exception {
        Map<Integer, List<Long>> found = new HashMap<>();
        Map<TopicPartition, ListOffsetsResultInfo> ends = offsets(topic, OffsetSpec.latest());
        offsets(topic, OffsetSpec.earliest()).forEach(
            (place, start) -> found.put(place.partition(), List.of(start.offset(), ends.get(place).offset())));
        return found;
    }

    private Object replicas(String topic) throws Exception {
        Map<Integer, List<Object>> found = new HashMap<>();
        for (TopicPartitionInfo each : partitions(topic)) {
            int leader = each.leader() == null ? -1 : each.leader().id();
            found.put(each.partition(), List.of(leader, ids(each.replicas())));
        }
        return found;
    }

    private Object reassign(TopicPartition partition, JsonNode replicas) throws Exception {
        List<Integer> wanted = new ArrayList<>();
        replicas.forEach(each -> wanted.add(each.asInt()));
        NewPartitionReassignment move = new NewPartitionReassignment(wanted);
        return admin.alterPartitionReassignments(Map.of(partition, Optional.of(move))).all().get();
    }

    private Object logDirs() throws Exception {
        Map<Integer, List<Object>> found = new HashMap<>();
        Collection<Integer> brokers = ids(admin.describeCluster().nodes().get());
        for (Map.Entry<Integer, Map<String, LogDirDescription>> each :
                admin.describeLogDirs(brokers).allDescriptions().get().entrySet()) {
            List<Object> held = found.computeIfAbsent(each.getKey(), key -> new ArrayList<>());
            for (LogDirDescription directory : each.getValue().values()) {
                held.addAll(places(directory.replicaInfos().keySet()));
            }
        }
        return found;
    }
}
