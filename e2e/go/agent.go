// Makes the calls it is told with the AWS SDK for Go, version 2.
//
// One JSON object a line in, one a line out; xtask/src/e2e/agent.rs says what they hold. The SDK's inputs and outputs
// bear the names of the wire, so encoding/json moves them in and out without a word about any single action.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	smithymiddleware "github.com/aws/smithy-go/middleware"
)

type call struct {
	ID                                    int
	Endpoint, Region, Key, Secret, Action string
	Input                                 json.RawMessage
}

type failure struct {
	Class   string `json:"class"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

type answer struct {
	ID     int      `json:"id"`
	Output any      `json:"output,omitempty"`
	Error  *failure `json:"error,omitempty"`
	Broken string   `json:"broken,omitempty"`
}

var (
	clients = map[string]*sqs.Client{}
	lock    sync.Mutex
	output  sync.Mutex
)

func client(c call) *sqs.Client {
	name := c.Endpoint + " " + c.Region + " " + c.Key
	lock.Lock()
	defer lock.Unlock()
	if clients[name] == nil {
		clients[name] = sqs.New(sqs.Options{
			BaseEndpoint: aws.String(c.Endpoint),
			Region:       c.Region,
			Credentials:  credentials.NewStaticCredentialsProvider(c.Key, c.Secret, ""),
		})
	}
	return clients[name]
}

func perform(c call) answer {
	method := reflect.ValueOf(client(c)).MethodByName(c.Action)
	if !method.IsValid() {
		return answer{Broken: "the SDK has no action " + c.Action}
	}
	input := reflect.New(method.Type().In(1).Elem())
	if err := json.Unmarshal(c.Input, input.Interface()); err != nil {
		return answer{Broken: err.Error()}
	}
	results := method.Call([]reflect.Value{reflect.ValueOf(context.Background()), input})
	if err, failed := results[1].Interface().(error); failed {
		return refused(err)
	}
	metadata := results[0].Elem().FieldByName("ResultMetadata").Interface()
	if id, known := middleware.GetRequestIDMetadata(metadata.(smithymiddleware.Metadata)); !known || id == "" {
		return answer{Broken: "an answer without a request id"}
	}
	return answer{Output: members(results[0].Elem())}
}

func refused(err error) answer {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return answer{Broken: err.Error()}
	}
	class := reflect.TypeOf(api).Elem().Name()
	return answer{Error: &failure{Class: class, Code: api.ErrorCode(), Message: api.ErrorMessage()}}
}

// members gives the fields of a result that are set: what the SDK leaves nil or empty was not on the wire.
func members(value reflect.Value) any {
	switch value.Kind() {
	case reflect.Pointer:
		return members(value.Elem())
	case reflect.Struct:
		set := map[string]any{}
		for i := range value.NumField() {
			field := value.Type().Field(i)
			if field.IsExported() && field.Name != "ResultMetadata" && !empty(value.Field(i)) {
				set[field.Name] = members(value.Field(i))
			}
		}
		return set
	case reflect.Slice:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			return value.Bytes()
		}
		list := []any{}
		for i := range value.Len() {
			list = append(list, members(value.Index(i)))
		}
		return list
	case reflect.Map:
		set := map[string]any{}
		for _, key := range value.MapKeys() {
			set[key.String()] = members(value.MapIndex(key))
		}
		return set
	default:
		return value.Interface()
	}
}

func empty(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		return value.IsNil()
	default:
		return false
	}
}

func tell(a answer) {
	var line strings.Builder
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(a); err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Print(line.String())
}

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var c call
		if err := json.Unmarshal(line, &c); err != nil {
			panic(err)
		}
		go func() {
			a := perform(c)
			a.ID = c.ID
			tell(a)
		}()
	}
}
