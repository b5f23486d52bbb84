package main

import (
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/forebay/forebay/internal/certtest"
)

// operator makes the same as nsc: an operator, its account for the servers themselves, an account for the nodes, and the file of a user there.
func operator(t *testing.T, credentials string) (trusted *jwt.OperatorClaims, accounts *server.MemAccResolver) {
	t.Helper()
	pair := func(create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
		key, err := create()
		if err != nil {
			t.Fatal(err)
		}
		public, err := key.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		return key, public
	}
	signed := func(claims jwt.Claims, by nkeys.KeyPair) string {
		text, err := claims.Encode(by)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	operatorKey, operatorName := pair(nkeys.CreateOperator)
	_, system := pair(nkeys.CreateAccount)
	nodesKey, nodes := pair(nkeys.CreateAccount)
	userKey, user := pair(nkeys.CreateUser)

	trusted = jwt.NewOperatorClaims(operatorName)
	trusted.SystemAccount = system
	signed(trusted, operatorKey)
	account := jwt.NewAccountClaims(nodes)
	account.Limits.JetStreamLimits = jwt.JetStreamLimits{
		MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit, MaxAckPending: jwt.NoLimit,
	}
	accounts = &server.MemAccResolver{}
	for name, text := range map[string]string{
		system: signed(jwt.NewAccountClaims(system), operatorKey),
		nodes:  signed(account, operatorKey),
	} {
		if err := accounts.Store(name, text); err != nil {
			t.Fatal(err)
		}
	}
	seed, err := userKey.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file, err := jwt.FormatUserConfig(signed(jwt.NewUserClaims(user), nodesKey), seed)
	if err != nil {
		t.Fatal(err)
	}
	write(t, credentials, string(file))
	return trusted, accounts
}

// natsServers starts three servers as their users run them, and returns their addresses. Clients need the credentials that it writes.
func natsServers(t *testing.T, config *tls.Config, credentials string) []string {
	t.Helper()
	trusted, accounts := operator(t, credentials)
	const size = 3
	free := addresses(t, 2*size)
	port := func(address string) int {
		_, text, _ := net.SplitHostPort(address)
		n, _ := strconv.Atoi(text)
		return n
	}
	servers := make([]*server.Server, size)
	for i := range servers {
		opts := &server.Options{
			ServerName: "server-" + strconv.Itoa(i), Host: "127.0.0.1", Port: port(free[i]), NoSigs: true, NoLog: true,
			TLSConfig: config.Clone(), TLSTimeout: 10,
			TrustedOperators: []*jwt.OperatorClaims{trusted}, SystemAccount: trusted.SystemAccount, AccountResolver: accounts,
			Cluster:   server.ClusterOpts{Name: "external", Host: "127.0.0.1", Port: port(free[size+i])},
			JetStream: true, StoreDir: filepath.Join(t.TempDir(), "jetstream"), JetStreamMaxStore: 8 << 30, SyncAlways: true,
		}
		for _, route := range free[size:] {
			opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats", Host: route})
		}
		var err error
		if servers[i], err = server.NewServer(opts); err != nil {
			t.Fatal(err)
		}
		servers[i].Start()
		t.Cleanup(func() {
			servers[i].Shutdown()
			servers[i].WaitForShutdown()
		})
	}
	for _, s := range servers {
		eventually(t, "the servers are ready", func() error {
			if h := s.Healthz(&server.HealthzOptions{}); h.Error != "" {
				return errors.New(h.Error)
			}
			return nil
		})
	}
	return free[:size]
}

// Two processes use servers that run already, which know them by certificates and by the credentials of a user, and one of them is lost. A node without
// credentials says that it is refused.
func TestServeNodesOfOtherServers(t *testing.T) {
	folder := t.TempDir()
	certificate, private := certtest.Pair(t)
	cert, key := writePair(t, folder, certificate, private)
	credentials := filepath.Join(folder, "me.creds")
	servers := natsServers(t, certtest.Mutual(t, certificate, private), credentials)
	node := func(name string, more ...string) *serving {
		return launch(t, []string{"FOREBAY_TOKEN=" + clusterToken}, "serve", append([]string{
			"-node", name, "-dir", filepath.Join(folder, name), "-nats", "tls://" + strings.Join(servers, ",tls://"),
			"-cluster-cert", cert, "-cluster-key", key, "-cluster-ca", cert,
			"-target", "dir:" + filepath.Join(folder, "tables"), "-staging", "dir:" + filepath.Join(folder, "staging"),
		}, more...)...)
	}
	stranger := node("stranger")
	stranger.waitLog("server refuses the user of this node", 1)
	nodes := []*serving{node("a", "-nats-credentials", credentials), node("b", "-nats-credentials", credentials)}
	loseFirst(t, nodes, folder)
	seed, err := os.ReadFile(credentials)
	if err != nil {
		t.Fatal(err)
	}
	_, secret, _ := strings.Cut(string(seed), "-----BEGIN USER NKEY SEED-----\n")
	secret, _, _ = strings.Cut(secret, "\n")
	for _, s := range append(nodes, stranger) {
		if logs := s.Logs(); secret == "" || strings.Contains(logs, secret) || strings.Contains(logs, clusterToken) {
			t.Error("a secret is logged")
		}
	}
}
