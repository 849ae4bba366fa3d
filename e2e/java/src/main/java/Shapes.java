import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.core.SdkField;
import software.amazon.awssdk.core.SdkPojo;
import software.amazon.awssdk.core.protocol.MarshallingType;
import software.amazon.awssdk.core.traits.ListTrait;
import software.amazon.awssdk.core.traits.MapTrait;
import software.amazon.awssdk.core.util.SdkAutoConstructList;
import software.amazon.awssdk.core.util.SdkAutoConstructMap;
import software.amazon.awssdk.protocols.jsoncore.JsonNode;
import software.amazon.awssdk.protocols.jsoncore.JsonWriter;
import software.amazon.awssdk.utils.builder.SdkBuilder;

/** JSON into the SDK's shapes and back, through the descriptions the shapes carry of themselves. */
final class Shapes {
    private Shapes() {}

    static void fill(SdkPojo builder, Map<String, JsonNode> members) {
        for (SdkField<?> field : builder.sdkFields()) {
            JsonNode value = members.get(field.locationName());
            if (value != null) {
                field.set(builder, read(field, value));
            }
        }
        for (String name : members.keySet()) {
            if (builder.sdkFields().stream().noneMatch(field -> field.locationName().equals(name))) {
                throw new IllegalArgumentException("the SDK has no member " + name);
            }
        }
    }

    private static Object read(SdkField<?> field, JsonNode value) {
        MarshallingType<?> type = field.marshallingType();
        if (type == MarshallingType.STRING) {
            return value.asString();
        } else if (type == MarshallingType.INTEGER) {
            return Integer.valueOf(value.asNumber());
        } else if (type == MarshallingType.SDK_BYTES) {
            return SdkBytes.fromByteArray(Base64.getDecoder().decode(value.asString()));
        } else if (type == MarshallingType.LIST) {
            SdkField<?> entry = field.getTrait(ListTrait.class).memberFieldInfo();
            List<Object> list = new ArrayList<>();
            value.asArray().forEach(inner -> list.add(read(entry, inner)));
            return list;
        } else if (type == MarshallingType.MAP) {
            SdkField<?> entry = field.getTrait(MapTrait.class).valueFieldInfo();
            Map<String, Object> map = new LinkedHashMap<>();
            value.asObject().forEach((name, inner) -> map.put(name, read(entry, inner)));
            return map;
        } else if (type == MarshallingType.SDK_POJO) {
            Supplier<SdkPojo> constructor = field.constructor();
            SdkPojo builder = constructor.get();
            fill(builder, value.asObject());
            return ((SdkBuilder<?, ?>) builder).build();
        }
        throw new IllegalArgumentException("an input of type " + type);
    }

    /** Writes what is set: a list or map that the SDK made up itself was not on the wire. */
    static void write(Object value, JsonWriter writer) {
        if (value instanceof SdkPojo shape) {
            writer.writeStartObject();
            for (SdkField<?> field : shape.sdkFields()) {
                Object member = field.getValueOrDefault(shape);
                if (member != null && !(member instanceof SdkAutoConstructList)
                        && !(member instanceof SdkAutoConstructMap)) {
                    writer.writeFieldName(field.locationName());
                    write(member, writer);
                }
            }
            writer.writeEndObject();
        } else if (value instanceof List<?> list) {
            writer.writeStartArray();
            list.forEach(entry -> write(entry, writer));
            writer.writeEndArray();
        } else if (value instanceof Map<?, ?> map) {
            writer.writeStartObject();
            map.forEach((name, entry) -> {
                writer.writeFieldName(name.toString());
                write(entry, writer);
            });
            writer.writeEndObject();
        } else if (value instanceof SdkBytes bytes) {
            writer.writeValue(Base64.getEncoder().encodeToString(bytes.asByteArray()));
        } else if (value instanceof Boolean truth) {
            writer.writeValue(truth);
        } else if (value instanceof Integer number) {
            writer.writeValue(number);
        } else if (value instanceof Long number) {
            writer.writeValue(number);
        } else {
            writer.writeValue(value.toString());
        }
    }
}
