package natsserver_test

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/cluster/natsserver"
	"github.com/forebay/forebay/internal/certtest"
)

func TestServersTalkOverTLS(t *testing.T) {
	certificate, key := certtest.Pair(t)
	config := certtest.Mutual(t, certificate, key)
	c, err := clustertest.Start(func(o *natsserver.Options) { o.TLS = config })
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	// Whoever has no certificate is not let in.
	without := config.Clone()
	without.Certificates = nil
	dialer := &net.Dialer{Timeout: clustertest.Patience}
	conn, err := tls.DialWithDialer(dialer, "tcp", c.Options(0).Listen, without)
	if err == nil { // the server refuses after the client's part is done
		defer conn.Close()
		if err = conn.SetDeadline(time.Now().Add(clustertest.Patience)); err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
	}
	if err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("a connection without a certificate = %v, want that it is refused", err)
	}
}
