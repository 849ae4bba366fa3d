// azqueue, the Azure SDK for Go: queues, messages, receipts, stored policies and signed URLs, one queue per scenario.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/sas"
)

const account = "devstoreaccount1"
const key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

var (
	ctx     = context.Background()
	told    = bufio.NewScanner(os.Stdin)
	service *azqueue.ServiceClient
)

// options are new ones each time: a client writes its credential into those it is given.
func options() *azqueue.ClientOptions {
	return &azqueue.ClientOptions{ClientOptions: azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}}
}

// must ends a scenario at an error that was not expected.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func same(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("found %#v, expected %#v", found, expected))
	}
}

func refused(err error, status int, code string) {
	var answer *azcore.ResponseError
	if !errors.As(err, &answer) {
		panic(fmt.Sprintf("not refused: %v", err))
	}
	same([]any{answer.StatusCode, answer.ErrorCode}, []any{status, code})
}

func clock(seconds int) {
	fmt.Printf("CLOCK %d\n", seconds*1000)
	told.Scan()
}

func queue(name string) *azqueue.QueueClient {
	client := service.NewQueueClient("go-" + name)
	must(client.Create(ctx, nil))
	return client
}

func receive(client *azqueue.QueueClient, hidden int32) []*azqueue.DequeuedMessage {
	got := must(client.DequeueMessages(ctx, &azqueue.DequeueMessagesOptions{
		NumberOfMessages: to.Ptr(int32(32)), VisibilityTimeout: to.Ptr(hidden),
	}))
	return got.Messages
}

func peeked(client *azqueue.QueueClient) []string {
	texts := []string{}
	shown := must(client.PeekMessages(ctx, &azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr(int32(32))}))
	for _, message := range shown.Messages {
		texts = append(texts, *message.MessageText)
	}
	return texts
}

var scenarios = []struct {
	name string
	play func()
}{
	{"a_message_lives_from_put_to_delete", func() {
		client := queue("life")
		sent := must(client.EnqueueMessage(ctx, "hello <you> & \r\n Grüße 🚀", nil)).Messages[0]
		same(sent.ExpirationTime.Sub(*sent.InsertionTime), 7*24*time.Hour)
		same(peeked(client), []string{"hello <you> & \r\n Grüße 🚀"})
		got := receive(client, 10)[0]
		same([]any{*got.MessageID, *got.DequeueCount}, []any{*sent.MessageID, int64(1)})
		same(len(receive(client, 10)), 0)
		must(client.DeleteMessage(ctx, *got.MessageID, *got.PopReceipt, nil))
		_, err := client.DeleteMessage(ctx, *got.MessageID, *got.PopReceipt, nil)
		refused(err, 404, "MessageNotFound")
		clock(11)
		same(len(receive(client, 10)), 0)
	}},
	{"an_update_makes_its_receipt_the_only_one", func() {
		client := queue("updates")
		must(client.EnqueueMessage(ctx, "one", nil))
		first := receive(client, 5)[0]
		update := &azqueue.UpdateMessageOptions{VisibilityTimeout: to.Ptr(int32(0))}
		must(client.UpdateMessage(ctx, *first.MessageID, *first.PopReceipt, "two", update))
		_, err := client.DeleteMessage(ctx, *first.MessageID, *first.PopReceipt, nil)
		refused(err, 400, "PopReceiptMismatch")
		second := receive(client, 5)[0]
		same([]any{*second.MessageText, *second.DequeueCount}, []any{"two", int64(2)})
		clock(5)
		same(peeked(client), []string{"two"})
	}},
	{"messages_wait_and_expire", func() {
		client := queue("times")
		put := func(text string, hidden, life int32) {
			must(client.EnqueueMessage(ctx, text, &azqueue.EnqueueMessageOptions{
				VisibilityTimeout: to.Ptr(hidden), TimeToLive: to.Ptr(life),
			}))
		}
		put("never", 0, -1)
		put("brief", 0, 5)
		put("later", 10, 100)
		same(peeked(client), []string{"never", "brief"})
		clock(5)
		same(peeked(client), []string{"never"})
		clock(5)
		same(peeked(client), []string{"never", "later"})
		same(*must(client.GetProperties(ctx, nil)).ApproximateMessagesCount, int64(2))
		must(client.ClearMessages(ctx, nil))
		same(peeked(client), []string{})
	}},
	{"queues_come_go_and_are_listed_in_pages", func() {
		for number := range 5 {
			metadata := map[string]*string{"Number": to.Ptr(fmt.Sprint(number))}
			must(service.CreateQueue(ctx, fmt.Sprintf("go-page-%d", number), &azqueue.CreateOptions{Metadata: metadata}))
		}
		_, err := service.CreateQueue(ctx, "go-page-0", &azqueue.CreateOptions{Metadata: map[string]*string{"a": to.Ptr("b")}})
		refused(err, 409, "QueueAlreadyExists")
		_, err = service.CreateQueue(ctx, "no--name", nil)
		refused(err, 400, "InvalidResourceName")
		found, pages := []string{}, 0
		pager := service.NewListQueuesPager(&azqueue.ListQueuesOptions{
			Prefix: to.Ptr("go-page-"), MaxResults: to.Ptr(int32(2)), Include: azqueue.ListQueuesInclude{Metadata: true},
		})
		for pager.More() {
			page := must(pager.NextPage(ctx))
			pages++
			for _, queue := range page.Queues {
				found = append(found, *queue.Name+*queue.Metadata["number"])
			}
		}
		same(found, []string{"go-page-00", "go-page-11", "go-page-22", "go-page-33", "go-page-44"})
		same(pages, 3)
		must(service.DeleteQueue(ctx, "go-page-0", nil))
		_, err = service.DeleteQueue(ctx, "go-page-0", nil)
		refused(err, 404, "QueueNotFound")
	}},
	{"stored_policies_and_signed_urls_open_what_they_say", func() {
		client := queue("sas")
		soon := time.Now().Add(time.Hour)
		secure := must(client.GetSASURL(sas.QueuePermissions{Read: true, Add: true}, soon, nil))
		_, err := must(azqueue.NewQueueClientWithNoCredential(secure, options())).PeekMessage(ctx, nil)
		refused(err, 403, "AuthorizationProtocolMismatch")
		values := sas.QueueSignatureValues{
			Protocol: sas.ProtocolHTTPSandHTTP, ExpiryTime: soon.UTC(), Permissions: "ra", QueueName: "go-sas",
		}
		signed := must(values.SignWithSharedKey(must(azqueue.NewSharedKeyCredential(account, key))))
		url := client.URL() + "?" + signed.Encode()
		guest := must(azqueue.NewQueueClientWithNoCredential(url, options()))
		must(guest.EnqueueMessage(ctx, "let in", nil))
		same(peeked(guest), []string{"let in"})
		_, err = guest.DequeueMessage(ctx, nil)
		refused(err, 403, "AuthorizationPermissionMismatch")
		forged := must(azqueue.NewQueueClientWithNoCredential(strings.Replace(url, "sp=ra", "sp=rap", 1), options()))
		_, err = forged.DequeueMessage(ctx, nil)
		refused(err, 403, "AuthenticationFailed")
		policy := &azqueue.AccessPolicy{Permission: to.Ptr("ra"), Expiry: to.Ptr(time.Now().Add(time.Hour).UTC())}
		must(client.SetAccessPolicy(ctx, &azqueue.SetAccessPolicyOptions{
			QueueACL: []*azqueue.SignedIdentifier{{ID: to.Ptr("staff"), AccessPolicy: policy}},
		}))
		shown := must(client.GetAccessPolicy(ctx, nil)).SignedIdentifiers[0]
		same([]string{*shown.ID, *shown.AccessPolicy.Permission}, []string{"staff", "ra"})
		stranger := must(azqueue.NewSharedKeyCredential(account, "d3Jvbmc="))
		wrong := must(azqueue.NewServiceClientWithSharedKeyCredential(os.Getenv("KEW_AZURE")+"/"+account, stranger, options()))
		_, err = wrong.GetServiceProperties(ctx, nil)
		refused(err, 403, "AuthenticationFailed")
	}},
	{"service_properties_come_back", func() {
		rule := &azqueue.CORSRule{
			AllowedOrigins: to.Ptr("https://a.example"), AllowedMethods: to.Ptr("GET"), AllowedHeaders: to.Ptr("x-ms-*"),
			ExposedHeaders: to.Ptr(""), MaxAgeInSeconds: to.Ptr(int32(60)),
		}
		must(service.SetProperties(ctx, &azqueue.SetPropertiesOptions{CORS: []*azqueue.CORSRule{rule}}))
		shown := must(service.GetServiceProperties(ctx, nil))
		same(*shown.CORS[0].AllowedOrigins, "https://a.example")
		must(service.SetProperties(ctx, &azqueue.SetPropertiesOptions{CORS: []*azqueue.CORSRule{}}))
	}},
}

func run(play func()) (failure any) {
	defer func() { failure = recover() }()
	play()
	return nil
}

func main() {
	credential := must(azqueue.NewSharedKeyCredential(account, key))
	service = must(azqueue.NewServiceClientWithSharedKeyCredential(os.Getenv("KEW_AZURE")+"/"+account, credential, options()))
	for _, scenario := range scenarios {
		if failure := run(scenario.play); failure != nil {
			line := strings.ReplaceAll(fmt.Sprint(failure), "\n", " ")
			fmt.Printf("FAIL %s: %.500s\n", scenario.name, line)
		} else {
			fmt.Printf("PASS %s\n", scenario.name)
		}
	}
}
