import com.azure.core.http.rest.PagedResponse;
import com.azure.core.util.BinaryData;
import com.azure.core.util.Context;
import com.azure.storage.common.StorageSharedKeyCredential;
import com.azure.storage.common.policy.RequestRetryOptions;
import com.azure.storage.common.policy.RetryPolicyType;
import com.azure.storage.queue.QueueClient;
import com.azure.storage.queue.QueueClientBuilder;
import com.azure.storage.queue.QueueMessageEncoding;
import com.azure.storage.queue.QueueServiceClient;
import com.azure.storage.queue.QueueServiceClientBuilder;
import com.azure.storage.queue.models.PeekedMessageItem;
import com.azure.storage.queue.models.QueueAccessPolicy;
import com.azure.storage.queue.models.QueueCorsRule;
import com.azure.storage.queue.models.QueueItem;
import com.azure.storage.queue.models.QueueMessageItem;
import com.azure.storage.queue.models.QueueServiceProperties;
import com.azure.storage.queue.models.QueueSignedIdentifier;
import com.azure.storage.queue.models.QueueStorageException;
import com.azure.storage.queue.models.QueuesSegmentOptions;
import com.azure.storage.queue.models.SendMessageResult;
import com.azure.storage.queue.models.UpdateMessageResult;
import com.azure.storage.queue.sas.QueueSasPermission;
import com.azure.storage.queue.sas.QueueServiceSasSignatureValues;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** com.azure:azure-storage-queue: queues, messages, receipts, stored policies and signed URLs, one queue per scenario. */
public final class AzurePlay {
    static final String ACCOUNT = "devstoreaccount1";
    static final String KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    static final String ENDPOINT = System.getenv("KEW_AZURE") + "/" + ACCOUNT;
    static final RequestRetryOptions ONCE = new RequestRetryOptions(RetryPolicyType.FIXED, 1, 60, null, null, null);
    static final BufferedReader ANSWERS = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    static final PrintStream SAY = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    static final QueueServiceClient SERVICE = service(KEY, QueueMessageEncoding.NONE);

    interface Scenario {
        void play() throws Exception;
    }

    static QueueServiceClient service(String key, QueueMessageEncoding encoding) {
        var credential = new StorageSharedKeyCredential(ACCOUNT, key);
        var builder = new QueueServiceClientBuilder().endpoint(ENDPOINT).credential(credential).retryOptions(ONCE);
        return builder.messageEncoding(encoding).buildClient();
    }

    static QueueClient queue(String name) {
        return SERVICE.createQueue("java-" + name);
    }

    static void same(Object found, Object expected) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError("found " + found + ", expected " + expected);
        }
    }

    static void refused(int status, String code, Scenario scenario) throws Exception {
        try {
            scenario.play();
        } catch (QueueStorageException error) {
            same(error.getStatusCode() + " " + error.getErrorCode(), status + " " + code);
            return;
        }
        throw new AssertionError("not refused with " + code);
    }

    static void clock(int seconds) throws Exception {
        SAY.println("CLOCK " + seconds * 1000);
        ANSWERS.readLine();
    }

    static List<QueueMessageItem> receive(QueueClient client, int hidden) {
        return client.receiveMessages(32, Duration.ofSeconds(hidden), null, Context.NONE).stream().toList();
    }

    static List<String> peeked(QueueClient client) {
        var shown = client.peekMessages(32, null, Context.NONE).stream();
        return shown.map(PeekedMessageItem::getBody).map(BinaryData::toString).toList();
    }

    static void put(QueueClient client, String text, int hidden, int life) {
        client.sendMessageWithResponse(text, Duration.ofSeconds(hidden), Duration.ofSeconds(life), null, Context.NONE);
    }

    static void aMessageLives() throws Exception {
        QueueClient client = queue("life");
        String text = "hello <you> & \r\n Grüße 🚀";
        SendMessageResult sent = client.sendMessage(text);
        same(Duration.between(sent.getInsertionTime(), sent.getExpirationTime()), Duration.ofDays(7));
        same(peeked(client), List.of(text));
        QueueMessageItem got = receive(client, 10).get(0);
        same(List.of(got.getMessageId(), got.getDequeueCount(), got.getBody().toString()),
            List.of(sent.getMessageId(), 1L, text));
        same(receive(client, 10).size(), 0);
        client.deleteMessage(got.getMessageId(), got.getPopReceipt());
        refused(404, "MessageNotFound", () -> client.deleteMessage(got.getMessageId(), got.getPopReceipt()));
        clock(11);
        same(receive(client, 10).size(), 0);
    }

    static void bytesAreBase64() {
        QueueClient plain = queue("base64");
        byte[] bytes = {0, 1, (byte) 0xff, 13, 10};
        QueueClient coded = service(KEY, QueueMessageEncoding.BASE64).getQueueClient("java-base64");
        coded.sendMessage(BinaryData.fromBytes(bytes));
        same(peeked(plain), List.of("AAH/DQo="));
        same(Arrays.equals(receive(coded, 10).get(0).getBody().toBytes(), bytes), true);
    }

    static void anUpdateRenewsTheReceipt() throws Exception {
        QueueClient client = queue("updates");
        client.sendMessage("one");
        QueueMessageItem first = receive(client, 5).get(0);
        String id = first.getMessageId();
        UpdateMessageResult updated = client.updateMessage(id, first.getPopReceipt(), "two", Duration.ofSeconds(7));
        refused(400, "PopReceiptMismatch", () -> client.deleteMessage(id, first.getPopReceipt()));
        clock(6);
        same(peeked(client), List.of());
        client.updateMessage(id, updated.getPopReceipt(), null, Duration.ZERO);
        QueueMessageItem second = receive(client, 5).get(0);
        same(List.of(second.getBody().toString(), second.getDequeueCount()), List.of("two", 2L));
    }

    static void messagesWaitAndExpire() throws Exception {
        QueueClient client = queue("times");
        put(client, "never", 0, -1);
        put(client, "brief", 0, 5);
        put(client, "later", 10, 100);
        same(peeked(client), List.of("never", "brief"));
        clock(5);
        same(peeked(client), List.of("never"));
        clock(5);
        same(peeked(client), List.of("never", "later"));
        same(client.getProperties().getApproximateMessagesCountLong(), 2L);
        client.clearMessages();
        same(peeked(client), List.of());
    }

    static void queuesKeepMetadata() throws Exception {
        QueueClient client = SERVICE.getQueueClient("java-metadata");
        same(client.createIfNotExists(), true);
        client.setMetadata(Map.of("owner", "ann", "purpose", "test"));
        same(client.createIfNotExists(), false);
        same(client.getProperties().getMetadata(), Map.of("owner", "ann", "purpose", "test"));
        refused(409, "QueueAlreadyExists",
            () -> client.createWithResponse(Map.of("owner", "bob"), null, Context.NONE));
        client.setMetadata(Map.of());
        same(client.getProperties().getMetadata(), Map.of());
        same(client.deleteIfExists(), true);
        same(client.deleteIfExists(), false);
        refused(404, "QueueNotFound", client::getProperties);
        refused(400, "InvalidResourceName", () -> SERVICE.createQueue("no--name"));
    }

    static void listsComeInPages() {
        for (int number = 0; number < 5; number++) {
            Map<String, String> metadata = Map.of("number", String.valueOf(number));
            SERVICE.createQueueWithResponse("java-page-" + number, metadata, null, Context.NONE);
        }
        var options = new QueuesSegmentOptions().setPrefix("java-page-").setIncludeMetadata(true).setMaxResultsPerPage(2);
        List<Integer> sizes = new ArrayList<>();
        List<String> found = new ArrayList<>();
        for (PagedResponse<QueueItem> page : SERVICE.listQueues(options, null, Context.NONE).iterableByPage()) {
            sizes.add(page.getValue().size());
            page.getValue().forEach(queue -> found.add(queue.getName() + queue.getMetadata().get("number")));
        }
        same(sizes, List.of(2, 2, 1));
        same(found, List.of("java-page-00", "java-page-11", "java-page-22", "java-page-33", "java-page-44"));
    }

    static QueueClient guest(String query) {
        var builder = new QueueClientBuilder().endpoint(ENDPOINT + "/java-sas?" + query).retryOptions(ONCE);
        return builder.buildClient();
    }

    static void signaturesOpenWhatTheyName() throws Exception {
        QueueClient client = queue("sas");
        // In seconds: the blocking client writes nine digits behind the point, and the service reads at most seven.
        OffsetDateTime soon = OffsetDateTime.now().plusHours(1).truncatedTo(ChronoUnit.SECONDS);
        var permission = QueueSasPermission.parse("ra");
        String signed = client.generateSas(new QueueServiceSasSignatureValues(soon, permission));
        QueueClient guest = guest(signed);
        guest.sendMessage("let in");
        same(peeked(guest), List.of("let in"));
        refused(403, "AuthorizationPermissionMismatch", guest::receiveMessage);
        refused(403, "AuthenticationFailed", () -> guest(signed.replace("sp=ra", "sp=rap")).receiveMessage());
        var policy = new QueueAccessPolicy().setPermissions("p").setExpiresOn(soon);
        client.setAccessPolicy(List.of(new QueueSignedIdentifier().setId("staff").setAccessPolicy(policy)));
        QueueSignedIdentifier shown = client.getAccessPolicy().iterator().next();
        same(List.of(shown.getId(), shown.getAccessPolicy().getPermissions()), List.of("staff", "p"));
        QueueClient staff = guest(client.generateSas(new QueueServiceSasSignatureValues("staff")));
        same(staff.receiveMessage().getBody().toString(), "let in");
        refused(403, "AuthenticationFailed", () -> service("d3Jvbmc=", QueueMessageEncoding.NONE).getProperties());
    }

    static void servicePropertiesComeBack() {
        var rule = new QueueCorsRule().setAllowedOrigins("https://a.example").setAllowedMethods("GET");
        rule.setAllowedHeaders("x-ms-*").setExposedHeaders("").setMaxAgeInSeconds(60);
        SERVICE.setProperties(new QueueServiceProperties().setCors(List.of(rule)));
        same(SERVICE.getProperties().getCors().get(0).getAllowedOrigins(), "https://a.example");
        SERVICE.setProperties(new QueueServiceProperties().setCors(List.of()));
        same(SERVICE.getProperties().getCors().size(), 0);
    }

    public static void main(String[] arguments) {
        Map<String, Scenario> scenarios = new LinkedHashMap<>();
        scenarios.put("a_message_of_the_java_client_lives_its_life", AzurePlay::aMessageLives);
        scenarios.put("bytes_of_the_java_client_travel_as_base64", AzurePlay::bytesAreBase64);
        scenarios.put("an_update_renews_the_java_client_s_receipt", AzurePlay::anUpdateRenewsTheReceipt);
        scenarios.put("messages_of_the_java_client_wait_expire_and_are_cleared", AzurePlay::messagesWaitAndExpire);
        scenarios.put("queues_of_the_java_client_keep_metadata_until_they_go", AzurePlay::queuesKeepMetadata);
        scenarios.put("lists_of_the_java_client_come_in_pages", AzurePlay::listsComeInPages);
        scenarios.put("signatures_the_java_client_makes_open_what_they_name", AzurePlay::signaturesOpenWhatTheyName);
        scenarios.put("service_properties_come_back_to_the_java_client", AzurePlay::servicePropertiesComeBack);
        scenarios.forEach((name, scenario) -> {
            try {
                scenario.play();
                SAY.println("PASS " + name);
            } catch (Exception | AssertionError failure) {
                failure.printStackTrace();
                SAY.println("FAIL " + name + ": " + String.valueOf(failure).replace('\n', ' '));
            }
        });
        System.exit(0);
    }
}
