package natsserver_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/cluster/natsserver"
)

// mutualTLS returns a configuration that demands a certificate, which it has, of both sides.
func mutualTLS(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(certificate)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		RootCAs:      pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	}
}

func TestServersTalkOverTLS(t *testing.T) {
	config := mutualTLS(t)
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
