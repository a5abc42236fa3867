// Opens a partition's directory with the log of Apache Kafka itself, as after a crash: every batch is checked, every
// index and snapshot written anew. Arguments: the directory, segment.bytes, index.interval.bytes, the time in ms.

import java.io.File;
import java.lang.reflect.Proxy;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;

import kafka.log.UnifiedLog;
import kafka.server.BrokerTopicStats;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

public class RecoverLog {
    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("segment.bytes", args[1]);
        properties.put("index.interval.bytes", args[2]);
        Long now = Long.valueOf(args[3]);  // the records are old: by the real time their producers would have expired
        Time time = (Time) Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, values) -> method.getName().equals("milliseconds") ? now : method.invoke(Time.SYSTEM, values));
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        UnifiedLog log = UnifiedLog.apply(
            new File(args[0]), new LogConfig(properties), 0L, 0L, scheduler, new BrokerTopicStats(false), time, 900_000,
            new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), false,
            scala.Option.empty(), true, new ConcurrentHashMap<>(), false,
            LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        System.out.println(log.logEndOffset() + " " + log.logSegments().size() + " "
            + log.producerStateManager().activeProducers().size() + " "
            + log.collectAbortedTransactions(0, log.logEndOffset()).size());
        log.close();
        scheduler.shutdown();
        System.exit(0);
    }
}
