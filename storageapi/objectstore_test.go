package storageapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// The examples of the signature's specification.
func TestS3Signature(t *testing.T) {
	s := &s3Signer{
		region:      "us-east-1",
		credentials: S3Credentials{AccessKeyID: "AKIAIOSFODNN7EXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"},
		now:         func() time.Time { return time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC) },
	}
	for _, c := range []struct {
		method, url, payload, signature string
		header                          []string
	}{
		{
			"GET", "https://examplebucket.s3.amazonaws.com/test.txt", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
			"f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
			[]string{"Range", "bytes=0-9"},
		},
		{
			"PUT", "https://examplebucket.s3.amazonaws.com/" + escapeS3("test$file.text"), "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
			"98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
			[]string{"Date", "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class", "REDUCED_REDUNDANCY"},
		},
	} {
		req, err := http.NewRequest(c.method, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(c.header); i += 2 {
			req.Header.Set(c.header[i], c.header[i+1])
		}
		s.sign(req, c.payload)
		if got := req.Header.Get("Authorization"); !strings.HasSuffix(got, "Signature="+c.signature) {
			t.Errorf("%s: got %s, want signature %s", c.method, got, c.signature)
		}
	}
}

// Each provider's upload goes where its parameters say, and its manifest names the slices there.
func TestProviders(t *testing.T) {
	for provider, c := range map[string]struct{ prepared, path, header, url string }{
		"azure": {
			`"absUploadParams":{"blobName":"k/","accountName":"acc","container":"cont","absCredentials":{"SASConnectionString":"BlobEndpoint=ENDPOINT;SharedAccessSignature=sig=1"}}`,
			"/cont/k/s%201", "X-Ms-Blob-Type", "azure://acc.blob.core.windows.net/cont/k/s 1",
		},
		"aws": {
			`"region":"eu-central-1","uploadParams":{"key":"k/","bucket":"buck","acl":"private","x-amz-server-side-encryption":"AES256","credentials":{"AccessKeyId":"a","SecretAccessKey":"b","SessionToken":"c","Expiration":"2099-01-01T00:00:00Z"}}`,
			"/buck/k/s%201", "X-Amz-Acl", "s3://buck/k/s 1",
		},
		"gcp": {
			`"created":"2026-01-01T00:00:00+0000","gcsUploadParams":{"projectId":"p","bucket":"buck","key":"k/","access_token":"t","token_type":"Bearer","expires_in":3600}`,
			"/buck/k/s%201", "Authorization", "gs://buck/k/s 1",
		},
	} {
		t.Run(provider, func(t *testing.T) {
			var mu sync.Mutex
			var puts []string
			var manifest string
			var h *httptest.Server
			h = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if strings.HasSuffix(r.URL.Path, "/files/prepare") {
					io.WriteString(w, `{"id":1,"provider":"`+provider+`",`+strings.ReplaceAll(c.prepared, "ENDPOINT", h.URL)+`}`)
					return
				}
				if r.Header.Get(c.header) == "" || r.Header.Get(TokenHeader) != "" {
					t.Errorf("header %v", r.Header)
				}
				mu.Lock()
				defer mu.Unlock()
				puts = append(puts, r.URL.EscapedPath())
				manifest = string(body)
			}))
			defer h.Close()
			client, err := New(Options{URL: h.URL, Token: secretToken, HTTP: h.Client(), S3Endpoint: h.URL, GCSEndpoint: h.URL})
			if err != nil {
				t.Fatal(err)
			}
			f, err := client.UploadSliced(t.Context(), FilePrepare{Name: "n"})
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Put(t.Context(), "s 1", BytesSource([]byte("x"))); err != nil {
				t.Fatal(err)
			}
			if err := f.Commit(t.Context(), "s 1"); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if puts[0] != c.path || puts[1] != strings.ReplaceAll(c.path, "s%201", "manifest") || manifest != `{"entries":[{"url":"`+c.url+`"}]}` {
				t.Errorf("puts %q, manifest %s", puts, manifest)
			}
			if name, ok := sliceName(c.url, f.store.name); !ok || name != "s 1" {
				t.Errorf("slice %q, %v", name, ok)
			}
		})
	}
}
