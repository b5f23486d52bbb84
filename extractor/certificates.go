package extractor

import (
	"crypto/tls"
	"crypto/x509"
	"errors"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// certificates are used by TLS connections of a plan in addition to the roots of the system.
type certificates struct {
	roots *x509.CertPool
	own   []tls.Certificate
}

// parseCertificates reads caCertificate, clientCertificate and clientKey, with or without '#'. They are texts in PEM form. The
// certificate may have its key with it. Nil means that there are none.
func parseCertificates(api *section, at place, pl *plan) *certificates {
	text := func(key string) (string, string) {
		found, path := "", key
		for _, spelled := range []string{key, "#" + key} {
			n, ok := api.get(spelled)
			if !ok || n.Empty() {
				continue
			}
			path = spelled
			before := len(at.p.wrong)
			e := at.compile(n, api.at(spelled))
			if len(at.p.wrong) > before {
				continue
			}
			v, err := e.eval(pl.attrScope())
			if err != nil || v.Kind() != tree.String {
				api.wrong(spelled, "must be text in PEM form")
				continue
			}
			found = v.Str()
		}
		return found, path
	}
	ca, caPath := text("caCertificate")
	cert, certPath := text("clientCertificate")
	key, keyPath := text("clientKey")
	if ca == "" && cert == "" && key == "" {
		return nil
	}
	c := new(certificates)
	if ca != "" {
		var err error
		if c.roots, err = x509.SystemCertPool(); err != nil {
			c.roots = x509.NewCertPool()
		}
		if !c.roots.AppendCertsFromPEM([]byte(ca)) {
			api.wrong(caPath, "must be certificates in PEM form")
		}
	}
	switch {
	case cert == "" && key != "":
		api.wrong(keyPath, "needs clientCertificate")
	case cert != "":
		if key == "" {
			key = cert
		}
		pl.secrets.add(key)
		own, err := tls.X509KeyPair([]byte(cert), []byte(key))
		if err != nil { // its text is not shown, because it may quote the key
			api.wrong(certPath, "must be a certificate in PEM form, with its key here or in clientKey")
			break
		}
		c.own = []tls.Certificate{own}
	}
	return c
}

var errTransportAndCertificates = errors.New("the configuration has certificates, which the Transport of the options would not use")

// tls returns the settings of connections. Only connections to trusted origins show the certificate of the client.
func (c *certificates) tls(trusted bool) *tls.Config {
	if c == nil {
		return nil
	}
	out := &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12}
	if trusted {
		out.Certificates = c.own
	}
	return out
}
