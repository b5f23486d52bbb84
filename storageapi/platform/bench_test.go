package platform_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

// Updates over HTTP, each with an fsync. Updates of different configurations share it.
//
//	go -C storageapi/platform test -run '^$' -bench Update -benchtime 2s
func BenchmarkUpdate(b *testing.B) {
	for _, workers := range []int{1, 16} {
		b.Run(fmt.Sprintf("callers=%d", workers), func(b *testing.B) {
			server, err := platform.Open(b.TempDir(), platform.Options{Token: masterToken, AnyComponent: true})
			if err != nil {
				b.Fatal(err)
			}
			defer server.Close()
			h := httptest.NewServer(server)
			defer h.Close()
			h.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = workers
			client, err := storageapi.New(storageapi.Options{URL: h.URL, Token: masterToken, HTTP: h.Client()})
			if err != nil {
				b.Fatal(err)
			}
			b.SetParallelism(workers)
			b.RunParallel(func(pb *testing.PB) {
				c, err := client.CreateConfiguration(b.Context(), component, storageapi.ConfigurationCreate{Name: "c"})
				if err != nil {
					b.Error(err)
					return
				}
				last := 1
				for pb.Next() {
					out, err := client.UpdateConfiguration(b.Context(), component, c.ID, storageapi.ConfigurationUpdate{Configuration: raw(`{"parameters":{"a":1}}`)})
					if err != nil || out.Version != last+1 {
						b.Errorf("version %v, %v", out, err)
						return
					}
					last = out.Version
				}
			})
		})
	}
}
