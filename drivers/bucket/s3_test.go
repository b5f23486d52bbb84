package bucket

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/forebay/forebay/driver"
)

// slowConn is a connection whose Write returns the last bytes of a body only when the client reads the second part of the response. The client has
// closed the body by then.
type slowConn struct {
	net.Conn
	last    string
	reads   int
	reading chan struct{}
}

func (c *slowConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if strings.HasSuffix(string(p), c.last) {
		<-c.reading
	}
	return n, err
}

func (c *slowConn) Read(p []byte) (int, error) {
	if c.reads++; c.reads == 2 {
		close(c.reading)
	}
	return c.Conn.Read(p)
}

// The code of a response that refuses an upload reaches the caller, even if the response begins before the transport has seen the end of the body.
func TestEarlyErrorKeepsItsCode(t *testing.T) {
	const body = "the whole body"
	var wrote sync.WaitGroup
	wrote.Add(1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte("<Error><Code>NoSuchBucket</Code>"))
		_ = http.NewResponseController(w).Flush()
		wrote.Wait()
		_, _ = w.Write([]byte("<Message>gone</Message></Error>"))
	}))
	defer server.Close()
	config := aws.Config{
		Region: "us-east-1", RetryMaxAttempts: 1, BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""),
		HTTPClient: awshttp.NewBuildableClient().WithTransportOptions(func(tr *http.Transport) {
			tr.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				return &slowConn{Conn: conn, last: body, reading: make(chan struct{})}, err
			}
		}),
	}
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err != nil {
			t.Errorf("the request was written with error %v, want none", info.Err)
		}
		wrote.Done()
	}})
	in := &s3.PutObjectInput{Bucket: aws.String("b"), Key: aws.String("k"), Body: strings.NewReader(body)}
	_, err := newClient(config, func(o *s3.Options) { o.UsePathStyle = true }).PutObject(ctx, in)
	if got := code(err); got != "NoSuchBucket" {
		t.Errorf("code %q of error %v, want NoSuchBucket", got, err)
	}
}

// Requests to S3 name Forebay and its version, in addition to the SDK.
func TestUserAgent(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	agents := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case agents <- r.UserAgent():
		default:
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	staging, err := Open(t.Context(), "s3://rows?endpoint="+server.URL, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer staging.Close()
	_, _ = staging.Uploads(t.Context(), time.Hour) // the result does not matter
	select {
	case got := <-agents:
		if !strings.Contains(got, driver.Product()) {
			t.Errorf("got the User-Agent %q, want %s in it", got, driver.Product())
		}
	default:
		t.Error("no request has come")
	}
}
