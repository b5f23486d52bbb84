package platform_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http/httptest"
	"os"

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

// A component is a function. The queue runs it for each row of a configuration.
func Example() {
	dir, err := os.MkdirTemp("", "platform")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	greet := func(_ context.Context, run *platform.Run) error {
		var config struct {
			Parameters struct{ Greeting, Name string }
		}
		if err := json.Unmarshal(run.Configuration, &config); err != nil {
			return platform.UserError(err)
		}
		fmt.Printf("%s: %s, %s\n", run.RowID, config.Parameters.Greeting, config.Parameters.Name)
		return run.SetState(json.RawMessage(`{"greeted":true}`))
	}
	server, err := platform.Open(dir, platform.Options{
		Token:      "a-token-of-your-own",
		Components: []platform.Component{{Component: storageapi.Component{ID: "my.greeter"}, Runner: platform.RunnerFunc(greet)}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	h := httptest.NewServer(server) // or any other server of http.Handlers
	defer h.Close()

	ctx := context.Background()
	client, err := storageapi.New(storageapi.Options{URL: h.URL, Token: "a-token-of-your-own"})
	if err != nil {
		log.Fatal(err)
	}
	config, err := client.CreateConfiguration(ctx, "my.greeter", storageapi.ConfigurationCreate{
		Name: "Greetings", Configuration: json.RawMessage(`{"parameters":{"greeting":"Hello","name":"nobody"}}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"Ada", "Grace"} {
		content := json.RawMessage(fmt.Sprintf(`{"parameters":{"name":%q}}`, name))
		if _, err := client.CreateRow(ctx, "my.greeter", config.ID, storageapi.RowCreate{RowID: "for-" + name, Configuration: content}); err != nil {
			log.Fatal(err)
		}
	}
	job, err := client.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: "my.greeter", Config: config.ID})
	if err != nil {
		log.Fatal(err)
	}
	if job, err = client.WaitForQueueJob(ctx, job.ID); err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.Status)

	// Output:
	// for-Ada: Hello, Ada
	// for-Grace: Hello, Grace
	// success
}
