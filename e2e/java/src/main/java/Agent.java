import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.awscore.exception.AwsServiceException;
import software.amazon.awssdk.core.SdkPojo;
import software.amazon.awssdk.protocols.jsoncore.JsonNode;
import software.amazon.awssdk.protocols.jsoncore.JsonWriter;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.SqsResponse;
import software.amazon.awssdk.utils.builder.SdkBuilder;

/**
 * Makes the calls it is told with the AWS SDK for Java, version 2.
 *
 * <p>One JSON object a line in, one a line out; xtask/src/e2e/agent.rs says what they hold.
 */
public final class Agent {
    private static final Map<String, SqsClient> CLIENTS = new ConcurrentHashMap<>();
    private static final String MODEL = "software.amazon.awssdk.services.sqs.model.";

    public static void main(String[] arguments) throws Exception {
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ExecutorService threads = Executors.newCachedThreadPool();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, JsonNode> call = JsonNode.parser().parse(line).asObject();
            threads.submit(() -> output.println(answer(call)));
        }
        System.exit(0);
    }

    private static String answer(Map<String, JsonNode> call) {
        JsonWriter writer = JsonWriter.create();
        writer.writeStartObject().writeFieldName("id").writeValue(Integer.parseInt(call.get("id").asNumber()));
        try {
            SqsResponse response = perform(call);
            if (response.responseMetadata().requestId() == null) {
                throw new IllegalStateException("an answer without a request id");
            }
            writer.writeFieldName("output");
            Shapes.write(response, writer);
        } catch (AwsServiceException error) {
            // A modelled error has a class of its own.
            String name = error.getClass().getSimpleName();
            writer.writeFieldName("error").writeStartObject();
            writer.writeFieldName("class").writeValue(name);
            writer.writeFieldName("code").writeValue(error.awsErrorDetails().errorCode());
            writer.writeFieldName("message").writeValue(String.valueOf(error.awsErrorDetails().errorMessage()));
            writer.writeEndObject();
        } catch (Throwable error) {
            writer.writeFieldName("broken").writeValue(error.toString());
        }
        return new String(writer.writeEndObject().getBytes(), StandardCharsets.UTF_8);
    }

    /** Finds the method of the client that takes the request of the action's name. */
    private static SqsResponse perform(Map<String, JsonNode> call) throws Throwable {
        String action = call.get("action").asString();
        Class<?> type = Class.forName(MODEL + action + "Request");
        Object builder = type.getMethod("builder").invoke(null);
        Shapes.fill((SdkPojo) builder, call.get("input").asObject());
        Object request = ((SdkBuilder<?, ?>) builder).build();
        String method = Character.toLowerCase(action.charAt(0)) + action.substring(1);
        try {
            return (SqsResponse) SqsClient.class.getMethod(method, type).invoke(client(call), request);
        } catch (java.lang.reflect.InvocationTargetException error) {
            throw error.getCause();
        }
    }

    private static SqsClient client(Map<String, JsonNode> call) {
        String endpoint = call.get("endpoint").asString();
        String region = call.get("region").asString();
        String key = call.get("key").asString();
        AwsBasicCredentials credentials = AwsBasicCredentials.create(key, call.get("secret").asString());
        return CLIENTS.computeIfAbsent(
                endpoint + " " + region + " " + key,
                name -> SqsClient.builder()
                        .endpointOverride(URI.create(endpoint))
                        .region(Region.of(region))
                        .credentialsProvider(StaticCredentialsProvider.create(credentials))
                        .build());
    }
}
