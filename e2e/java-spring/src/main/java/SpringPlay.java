import io.awspring.cloud.sqs.annotation.SqsListener;
import io.awspring.cloud.sqs.annotation.SqsListenerAcknowledgementMode;
import io.awspring.cloud.sqs.listener.Visibility;
import io.awspring.cloud.sqs.listener.acknowledgement.Acknowledgement;
import io.awspring.cloud.sqs.operations.SqsTemplate;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.messaging.Message;
import org.springframework.messaging.handler.annotation.Header;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.sqs.SqsAsyncClient;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;
import software.amazon.awssdk.services.sqs.model.SendMessageBatchRequestEntry;

/** Spring Cloud AWS: a Boot application whose methods listen on SQS queues, one queue or two per scenario. */
@EnableAutoConfiguration
public class SpringPlay {
    static final PrintStream SAY = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    static final BufferedReader ANSWERS = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    static final Duration PATIENCE = Duration.ofSeconds(20);
    /** What each listener was given, in its order. */
    static final Map<String, List<String>> HEARD = new ConcurrentHashMap<>();

    static SqsAsyncClient sqs;
    static SqsTemplate template;

    interface Scenario {
        void play() throws Exception;
    }

    static List<String> heard(String listener) {
        return HEARD.computeIfAbsent(listener, name -> Collections.synchronizedList(new ArrayList<>()));
    }

    @SqsListener("spring-work")
    void work(String body, @Header(name = "colour", required = false) String colour) {
        heard("work").add(body + " " + colour);
    }

    @SqsListener("spring-failing")
    void fail(String body, @Header("Sqs_Msa_ApproximateReceiveCount") String count) {
        heard("failing").add(body + " " + count);
        throw new IllegalStateException("this listener fails");
    }

    @SqsListener("spring-order.fifo")
    void order(String body, @Header("Sqs_Msa_MessageGroupId") String group) {
        heard(group).add(body);
    }

    @SqsListener(queueNames = "spring-batch", maxMessagesPerPoll = "10")
    void batch(List<Message<String>> messages) {
        heard("batches").add(String.valueOf(messages.size()));
        messages.forEach(message -> heard("batch").add(message.getPayload()));
    }

    @SqsListener(queueNames = "spring-manual", acknowledgementMode = SqsListenerAcknowledgementMode.MANUAL)
    void manual(String body, Acknowledgement acknowledgement, Visibility visibility) {
        List<String> heard = heard("manual");
        heard.add(body);
        if (heard.size() == 1) {
            visibility.changeTo(0);
        } else {
            acknowledgement.acknowledge();
        }
    }

    static void same(Object found, Object expected) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError("found " + found + ", expected " + expected);
        }
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    /** Waits for what a listener does in its own time. */
    static void until(String what, Condition condition) throws Exception {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (!condition.holds()) {
            if (System.nanoTime() > end) {
                throw new AssertionError("not within " + PATIENCE.toSeconds() + " s: " + what + ", heard " + HEARD);
            }
            Thread.sleep(20);
        }
    }

    static void clock(int seconds) throws Exception {
        SAY.println("CLOCK " + seconds * 1000);
        ANSWERS.readLine();
    }

    static String queue(String name, Map<String, String> attributes) {
        return sqs.createQueue(request -> request.queueName(name).attributesWithStrings(attributes)).join().queueUrl();
    }

    static String attribute(String name, QueueAttributeName attribute) {
        String url = sqs.getQueueUrl(request -> request.queueName(name)).join().queueUrl();
        return sqs.getQueueAttributes(request -> request.queueUrl(url).attributeNames(QueueAttributeName.ALL))
            .join().attributes().get(attribute);
    }

    /** The messages of a queue, visible and in flight. */
    static String left(String name) {
        return attribute(name, QueueAttributeName.APPROXIMATE_NUMBER_OF_MESSAGES) + "+"
            + attribute(name, QueueAttributeName.APPROXIMATE_NUMBER_OF_MESSAGES_NOT_VISIBLE);
    }

    static void handledOnce() throws Exception {
        template.send(to -> to.queue("spring-work").payload("hello Grüße 🚀").header("colour", "blue"));
        template.send("spring-work", "second");
        until("two messages handled", () -> heard("work").size() == 2);
        until("both acknowledged", () -> left("spring-work").equals("0+0"));
        clock(60);
        template.send("spring-work", "third");
        until("the next one handled", () -> heard("work").contains("third null"));
        same(heard("work").stream().sorted().toList(),
            List.of("hello Grüße 🚀 blue", "second null", "third null"));
    }

    static void failuresBecomeDeadLetters() throws Exception {
        template.send("spring-failing", "poison");
        until("the first attempt", () -> heard("failing").size() == 1);
        same(left("spring-failing"), "0+1");
        clock(6);
        until("the second attempt", () -> heard("failing").size() == 2);
        same(left("spring-dead"), "0+0");
        clock(6);
        until("a dead letter", () -> left("spring-dead").equals("1+0"));
        same(left("spring-failing"), "0+0");
        same(heard("failing"), List.of("poison 1", "poison 2"));
        Message<?> dead = template.receive("spring-dead", String.class).orElseThrow();
        same(dead.getPayload(), "poison");
    }

    static void groupsKeepTheirOrder() throws Exception {
        List<String> bodies = new ArrayList<>();
        for (int number = 0; number < 12; number++) {
            String body = String.valueOf(number);
            bodies.add(body);
            for (String group : List.of("ann", "bob", "cat")) {
                template.send(to -> to.queue("spring-order.fifo").payload(body).messageGroupId(group)
                    .messageDeduplicationId(group + body));
            }
        }
        for (String group : List.of("ann", "bob", "cat")) {
            until("all of " + group, () -> heard(group).size() == bodies.size());
            same(heard(group), bodies);
        }
        until("all acknowledged", () -> left("spring-order.fifo").equals("0+0"));
    }

    static void listsAreTaken() throws Exception {
        until("all of the batch", () -> heard("batch").size() == 10);
        same(heard("batch").stream().sorted().toList(), List.of("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"));
        same(heard("batches"), List.of("10"));
        until("all acknowledged", () -> left("spring-batch").equals("0+0"));
    }

    static void handAndVisibility() throws Exception {
        template.send("spring-manual", "twice");
        until("given back and taken again", () -> heard("manual").size() == 2);
        until("acknowledged by hand", () -> left("spring-manual").equals("0+0"));
        same(heard("manual"), List.of("twice", "twice"));
    }

    static void missingQueueIsMade() throws Exception {
        // The one was made by a listener's container, the other is by the template.
        same(attribute("spring-work", QueueAttributeName.VISIBILITY_TIMEOUT), "30");
        same(template.receive(from -> from.queue("spring-made").pollTimeout(Duration.ofSeconds(1))).isPresent(), false);
        same(left("spring-made"), "0+0");
    }

    /** The queues that have attributes, and a batch that waits before a listener is there. */
    static void prepare() {
        String dead = queue("spring-dead", Map.of());
        String arn = sqs.getQueueAttributes(request -> request.queueUrl(dead).attributeNames(QueueAttributeName.QUEUE_ARN))
            .join().attributes().get(QueueAttributeName.QUEUE_ARN);
        String redrive = "{\"deadLetterTargetArn\":\"" + arn + "\",\"maxReceiveCount\":\"2\"}";
        queue("spring-failing", Map.of("VisibilityTimeout", "5", "RedrivePolicy", redrive));
        queue("spring-order.fifo", Map.of("FifoQueue", "true"));
        String batch = queue("spring-batch", Map.of());
        sqs.sendMessageBatch(request -> {
            var entries = new ArrayList<SendMessageBatchRequestEntry>();
            for (int number = 0; number < 10; number++) {
                String text = String.valueOf(number);
                entries.add(SendMessageBatchRequestEntry.builder()
                    .id("m" + text).messageBody(text).build());
            }
            request.queueUrl(batch).entries(entries);
        }).join();
    }

    static ConfigurableApplicationContext start() {
        return new SpringApplicationBuilder(SpringPlay.class).web(WebApplicationType.NONE).properties(
            "spring.main.banner-mode=off",
            "spring.cloud.aws.sqs.endpoint=" + System.getenv("KEW_ENDPOINT"),
            "spring.cloud.aws.region.static=us-east-1",
            "spring.cloud.aws.credentials.access-key=any",
            "spring.cloud.aws.credentials.secret-key=any",
            "spring.cloud.aws.sqs.listener.poll-timeout=1s").run();
    }

    public static void main(String[] arguments) {
        // Standard output is the play's.
        System.setOut(System.err);
        var credentials = StaticCredentialsProvider.create(AwsBasicCredentials.create("any", "any"));
        sqs = SqsAsyncClient.builder().endpointOverride(URI.create(System.getenv("KEW_ENDPOINT")))
            .region(Region.US_EAST_1).credentialsProvider(credentials).build();
        prepare();
        var application = start();
        template = application.getBean(SqsTemplate.class);
        Map<String, Scenario> scenarios = new LinkedHashMap<>();
        scenarios.put("a_listener_takes_a_list_of_what_was_waiting", SpringPlay::listsAreTaken);
        scenarios.put("a_listener_handles_each_message_once_and_acknowledges_it", SpringPlay::handledOnce);
        scenarios.put("what_a_listener_fails_at_comes_back_and_becomes_a_dead_letter",
            SpringPlay::failuresBecomeDeadLetters);
        scenarios.put("a_listener_on_a_fifo_queue_hears_each_group_in_order", SpringPlay::groupsKeepTheirOrder);
        scenarios.put("a_listener_gives_back_at_once_and_acknowledges_by_hand", SpringPlay::handAndVisibility);
        scenarios.put("a_queue_that_is_missing_is_made_by_who_needs_it", SpringPlay::missingQueueIsMade);
        scenarios.forEach((name, scenario) -> {
            try {
                scenario.play();
                SAY.println("PASS " + name);
            } catch (Exception | AssertionError failure) {
                failure.printStackTrace();
                SAY.println("FAIL " + name + ": " + String.valueOf(failure).replace('\n', ' '));
            }
        });
        // Listeners need not be waited for: everything has been said.
        Runtime.getRuntime().halt(0);
    }
}
