import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;

/**
 * How Apache Kafka's group coordinator assigns partitions.
 *
 * Reads lines "Uniform topic:count,... member:instance:topic+topic:topic-partition+topic-partition ..."; topics are numbers,
 * and the last part is what the member has. Answers with "member:topic-partition+... ...". The interfaces are reached by
 * reflection: the clients' jars, with which this is compiled, lack them.
 */
public class CoordinatorAssignors {
    private static final String PACKAGE = "org.apache.kafka.coordinator.group.";

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(answer(line.split(" ", -1)));
        }
    }

    private static String answer(String[] words) throws Exception {
        Map<Uuid, Integer> counts = new HashMap<>();
        for (String topic : split(words[1], ",")) {
            counts.put(id(topic.split(":")[0]), Integer.parseInt(topic.split(":")[1]));
        }
        Map<String, Object> subscriptions = new HashMap<>();
        Map<String, Object> assignments = new HashMap<>();
        Map<Uuid, Set<Integer>> taken = new HashMap<>();
        Set<Set<Uuid>> wishes = new HashSet<>();
        for (String word : Arrays.asList(words).subList(2, words.length)) {
            String[] parts = word.split(":", -1);
            Set<Uuid> topics = new HashSet<>();
            split(parts[2], "\\+").forEach(each -> topics.add(id(each)));
            wishes.add(topics);
            Map<Uuid, Set<Integer>> had = new HashMap<>();
            for (String each : split(parts[3], "\\+")) {
                String[] pair = each.split("-");
                had.computeIfAbsent(id(pair[0]), key -> new HashSet<>()).add(Integer.parseInt(pair[1]));
                taken.computeIfAbsent(id(pair[0]), key -> new HashSet<>()).add(Integer.parseInt(pair[1]));
            }
            Optional<String> instance = parts[1].isEmpty() ? Optional.empty() : Optional.of(parts[1]);
            subscriptions.put(parts[0], as("api.assignor.MemberSubscription", (self, method, given) ->
                method.getName().equals("instanceId") ? instance
                    : method.getName().equals("rackId") ? Optional.empty() : topics));
            assignments.put(parts[0], as("api.assignor.MemberAssignment", (self, method, given) ->
                Collections.unmodifiableMap(had)));
        }
        Object[] types = Class.forName(PACKAGE + "api.assignor.SubscriptionType").getEnumConstants();
        Object type = types[0].toString().equalsIgnoreCase("homogeneous") == (wishes.size() <= 1) ? types[0] : types[1];
        Object group = as("api.assignor.GroupSpec", (self, method, given) -> {
            switch (method.getName()) {
                case "memberIds": return subscriptions.keySet();
                case "subscriptionType": return type;
                case "isPartitionAssigned": return taken.getOrDefault(given[0], Set.of()).contains(given[1]);
                case "isPartitionAssignable": return true;
                case "memberSubscription": return subscriptions.get(given[0]);
                default: return assignments.get(given[0]);
            }
        });
        Object topics = as("api.assignor.SubscribedTopicDescriber", (self, method, given) ->
            method.getName().equals("numPartitions") ? counts.getOrDefault(given[0], -1) : Set.of());
        Object assignor = Class.forName(PACKAGE + "assignor." + words[0] + "Assignor").getConstructor().newInstance();
        Method assign = Arrays.stream(assignor.getClass().getMethods())
            .filter(each -> each.getName().equals("assign")).findFirst().get();
        return text(assign.invoke(assignor, group, topics));
    }

    private static String text(Object result) throws ReflectiveOperationException {
        Map<?, ?> members = (Map<?, ?>) result.getClass().getMethod("members").invoke(result);
        Map<String, String> answers = new TreeMap<>();
        for (Map.Entry<?, ?> member : members.entrySet()) {
            Method partitions = Class.forName(PACKAGE + "api.assignor.MemberAssignment").getMethod("partitions");
            Set<String> names = new TreeSet<>();
            ((Map<?, ?>) partitions.invoke(member.getValue())).forEach((topic, numbers) -> ((Collection<?>) numbers)
                .forEach(number -> names.add(((Uuid) topic).getLeastSignificantBits() + "-" + number)));
            answers.put((String) member.getKey(), String.join("+", names));
        }
        List<String> written = new ArrayList<>();
        answers.forEach((member, names) -> written.add(member + ":" + names));
        return String.join(" ", written);
    }

    private static Object as(String name, InvocationHandler handler) throws ClassNotFoundException {
        Class<?> type = Class.forName(PACKAGE + name);
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler);
    }

    private static Uuid id(String number) {
        return new Uuid(7, Long.parseLong(number));
    }

    private static List<String> split(String text, String by) {
        return text.isEmpty() ? List.of() : Arrays.asList(text.split(by));
    }
}
