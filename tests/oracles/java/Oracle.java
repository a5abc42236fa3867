import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.StringJoiner;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * Apache Kafka's own message classes as an oracle.
 *
 * Reads lines "name version hex" and answers each with "hex key json": the message read from the bytes and written again, its
 * API key or record type (-1 if it has none), and its values. "unknown" when this Kafka lacks the message or the version, "error ..." when it cannot read the bytes.
 *
 * With the word "schema" for the bytes it answers with the fields of that version, "{name:type,...}": tags come last as
 * "name#tag:type", nullable types end in "?".
 */
public class Oracle {
    private static final String[] PLACES = {
        "org.apache.kafka.common.message.%sData",
        "org.apache.kafka.common.message.%s",
        "org.apache.kafka.coordinator.group.generated.%s",
        "org.apache.kafka.coordinator.transaction.generated.%s",
        "org.apache.kafka.common.metadata.%s",
    };
    private static final Map<String, Class<?>> FOUND = new HashMap<>();
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            short version = Short.parseShort(words[1]);
            boolean isAboutSchema = words[2].equals("schema");
            out.println(isAboutSchema ? schema(words[0], version) : answer(words[0], version, HEX.parseHex(words[2])));
        }
        out.flush();
    }

    private static String answer(String name, short version, byte[] data) {
        Class<?> type = FOUND.computeIfAbsent(name, Oracle::find);
        try {
            if (type == null) {
                return "unknown";
            }
            Message message = (Message) type.getDeclaredConstructor().newInstance();
            if (version < message.lowestSupportedVersion() || version > message.highestSupportedVersion()) {
                return "unknown";
            }
            ByteBuffer buffer = ByteBuffer.wrap(data);
            message.read(new ByteBufferAccessor(buffer), version);
            if (buffer.hasRemaining()) {
                return "error " + buffer.remaining() + " bytes left over";
            }
            short key = ((ApiMessage) message).apiKey();
            return HEX.formatHex(write(message, version)) + " " + key + " " + json(type, message, version);
        } catch (ReflectiveOperationException | RuntimeException problem) {
            return ("error " + problem + " " + problem.getCause()).replace('\n', ' ');
        }
    }

    private static String schema(String name, short version) throws ReflectiveOperationException {
        Class<?> type = FOUND.computeIfAbsent(name, Oracle::find);
        Schema[] schemas = type == null ? new Schema[0] : (Schema[]) type.getField("SCHEMAS").get(null);
        return version >= schemas.length || schemas[version] == null ? "unknown" : describe(schemas[version]);
    }

    private static String describe(Type type) {
        String mark = type.isNullable() ? "?" : "";
        if (type.isArray()) {
            return "[" + describe(type.arrayElementType().get()) + "]" + mark;
        }
        if (!(type instanceof Schema)) {
            String name = ((Type.DocumentedType) type).typeName().replaceAll("COMPACT_|NULLABLE_", "");
            return name.toLowerCase() + (name.equals("RECORDS") ? "" : mark);
        }
        StringJoiner fields = new StringJoiner(",", "{", "}" + mark);
        for (BoundField field : ((Schema) type).fields()) {
            if (field.def.type instanceof TaggedFields) {
                taggedFields((TaggedFields) field.def.type).forEach((tag, tagged) ->
                    fields.add(tagged.name + "#" + tag + ":" + describe(tagged.type)));
            } else {
                fields.add(field.def.name + ":" + describe(field.def.type));
            }
        }
        return fields.toString();
    }

    @SuppressWarnings("unchecked")
    private static Map<Integer, Field> taggedFields(TaggedFields section) {
        try {
            java.lang.reflect.Field fields = TaggedFields.class.getDeclaredField("fields");
            fields.setAccessible(true); // Kafka 3.9 does not show them otherwise
            return (Map<Integer, Field>) fields.get(section);
        } catch (ReflectiveOperationException problem) {
            throw new IllegalStateException(problem);
        }
    }

    private static Class<?> find(String name) {
        for (String place : PLACES) {
            try {
                return Class.forName(String.format(place, name));
            } catch (ClassNotFoundException absent) {
                // The next place may have it.
            }
        }
        return null;
    }

    private static byte[] write(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }

    private static Object json(Class<?> type, Message message, short version) throws ReflectiveOperationException {
        Class<?> converter = Class.forName(type.getName() + "JsonConverter");
        Method write = converter.getMethod("write", type, short.class, boolean.class);
        return write.invoke(null, message, version, false);
    }
}
