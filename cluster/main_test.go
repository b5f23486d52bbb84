package cluster

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if node := os.Getenv(nodeEnv); node != "" {
		if err := runNodeProcess(node); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	waits()
	goleak.VerifyTestMain(m,
		// Proxies between servers leave data in transit on a connection that broke.
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
	)
}

// waits lets six tests run in parallel, whatever the number of processors is, if no flag says otherwise. Mostly they wait, for
// elections and for leases. One after the other they take three times as long.
func waits() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "6"); err != nil {
			panic(err)
		}
	}
}
