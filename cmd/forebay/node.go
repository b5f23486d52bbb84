package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay/forebay/internal/program/server"
)

// nodeFlags make a server a node of a cluster.
type nodeFlags struct {
	node string
	// listen, advertise, peers, secretFile and maxStore are of the server of NATS inside of this process.
	listen, advertise, peers, secretFile string
	maxStore                             int64
	// nats has the addresses of servers that run already, natsCredentials the file of a user there.
	nats, natsCredentials string
	cert, key, ca         string
	// secret comes from the environment.
	secret string
}

// secretVariable has the secret of the servers, which is no flag, because other users of a machine can see flags.
const secretVariable = "FOREBAY_CLUSTER_SECRET"

// clusterSection is the key of the file that has the flags of [nodeFlags], without the prefix clusterPrefix.
const (
	clusterSection = "cluster"
	clusterPrefix  = "cluster-"
)

func (f *nodeFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&f.node, "node", "", "cluster node name; must never change (default no cluster; e.g. a)")
	flags.StringVar(&f.listen, "cluster-listen", "", "address of this node's NATS server, HOST:PORT (default none; e.g. 10.0.0.1:6222)")
	flags.StringVar(&f.advertise, "cluster-advertise", "", "address at which other nodes reach -cluster-listen, if it differs, HOST:PORT (default -cluster-listen; e.g. node-a:6222)")
	flags.StringVar(&f.peers, "cluster-peers", "", "-cluster-listen addresses of all 3, 5 or 7 nodes that run a server, comma-separated (default none; e.g. a:6222,b:6222,c:6222)")
	flags.StringVar(&f.secretFile, "cluster-secret-file", "", "file with the secret that all nodes share, at least 16 characters (default the variable "+secretVariable+"; e.g. secret.txt)")
	flags.Int64Var(&f.maxStore, "cluster-max-store", 0, "bytes that logs may reserve on this node's disk; each log reserves up to 1 GiB (default 17179869184, 16 GiB; e.g. 34359738368)")
	flags.StringVar(&f.nats, "nats", "", "comma-separated URLs of existing NATS servers; replaces -cluster-listen and -cluster-peers (default none; e.g. nats://n1:4222)")
	flags.StringVar(&f.natsCredentials, "nats-credentials", "", "file with the credentials of the -nats user, created by nsc (default none; e.g. forebay.creds)")
	flags.StringVar(&f.cert, "cluster-cert", "", "PEM file with this node's certificate, for TLS between nodes or to -nats (default none; e.g. node.pem)")
	flags.StringVar(&f.key, "cluster-key", "", "PEM file with the private key for -cluster-cert (default none; e.g. node-key.pem)")
	flags.StringVar(&f.ca, "cluster-ca", "", "PEM file with the CA certificates for other servers (default the trust store of the machine; e.g. ca.pem)")
}

// isNodeFlag reports whether a flag belongs to the section of the file.
func isNodeFlag(name string) bool {
	return name == "node" || name == "nats" || name == "nats-credentials" || strings.HasPrefix(name, clusterPrefix)
}

// sectionKey is the key of a flag in the section.
func sectionKey(flag string) string { return strings.TrimPrefix(flag, clusterPrefix) }

var nodeName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// leastSecret is the length of the secret of the servers.
const leastSecret = 16

// checkNode returns the problems of a node's flags, without opening anything. Each problem is a [*server.FlagError].
func (cfg *serveConfig) checkNode() (problems []error) {
	f := &cfg.nodeFlags
	wrong := func(text string, flags ...string) { problems = append(problems, server.WrongFlags(text, flags...)) }
	if f.node == "" {
		for _, name := range slices.Concat(f.embedded(), given(map[string]bool{
			"nats": f.nats != "", "nats-credentials": f.natsCredentials != "", "cluster-cert": f.cert != "", "cluster-key": f.key != "", "cluster-ca": f.ca != "",
		})) {
			wrong("is for a node of a cluster: give the node a name with -node", name)
		}
		return problems
	}
	if clusterMissing != "" {
		return []error{server.WrongFlags(clusterMissing, "node")}
	}
	if !nodeName.MatchString(f.node) {
		problems = append(problems, server.WrongValue("node", "is %q, must be 1 to 100 letters, digits, hyphens or underscores", f.node))
	}
	if f.nats != "" {
		problems = append(problems, f.checkExternal()...)
	} else {
		problems = append(problems, f.checkEmbedded()...)
	}
	if (f.cert == "") != (f.key == "") {
		wrong("must come with the other one of -cluster-cert and -cluster-key", map[bool]string{true: "cluster-cert", false: "cluster-key"}[f.key == ""])
	}
	if cfg.sources != nil {
		wrong("excludes sources in the file: the nodes of a cluster share their definitions, so define them through the Stream API of any node", "node")
	}
	if cfg.Source != "" {
		wrong("is for a server alone: define sources through the Stream API of any node", "source", "node")
	}
	if cfg.Admin != "" {
		wrong("is for a server alone: the log and the checkpoints of a node have its data too, so leave it out", "admin", "node")
	}
	if cfg.Token == "" {
		wrong("is required with -node, best as FOREBAY_TOKEN: all nodes must have the same token", "token", "node")
	}
	return append(problems, cfg.checkShared()...)
}

// embedded returns which flags of the server of NATS inside of this process are given.
func (f *nodeFlags) embedded() []string {
	return given(map[string]bool{
		"cluster-listen": f.listen != "", "cluster-advertise": f.advertise != "", "cluster-peers": f.peers != "", "cluster-secret-file": f.secretFile != "",
		"cluster-max-store": f.maxStore != 0,
	})
}

// given returns in order the names that are true.
func given(flags map[string]bool) []string {
	maps.DeleteFunc(flags, func(_ string, set bool) bool { return !set })
	return slices.Sorted(maps.Keys(flags))
}

// checkEmbedded checks the flags of the server of NATS inside of this process.
func (f *nodeFlags) checkEmbedded() (problems []error) {
	if f.natsCredentials != "" {
		problems = append(problems, server.WrongFlags("is for a user of -nats, which is missing", "nats-credentials"))
	}
	if f.listen == "" || f.peers == "" {
		return append(problems, server.WrongFlags("needs servers of NATS: give -cluster-listen and -cluster-peers for one inside of each node, or -nats for servers that run already", "node"))
	}
	if f.ca != "" && f.cert == "" {
		problems = append(problems, server.WrongFlags("needs -cluster-cert and -cluster-key: servers show each other their certificates", "cluster-ca"))
	}
	address := func(flag, text string) {
		if host, port, err := net.SplitHostPort(text); err != nil || host == "" || !validPort(port) {
			problems = append(problems, server.WrongValue(flag, "has %q, must be HOST:PORT", text))
		}
	}
	address("cluster-listen", f.listen)
	own := f.listen
	if f.advertise != "" {
		address("cluster-advertise", f.advertise)
		own = f.advertise
	}
	peers := f.peerList()
	for _, peer := range peers {
		address("cluster-peers", peer)
	}
	if n := len(peers); n != 3 && n != 5 && n != 7 {
		problems = append(problems, server.WrongValue("cluster-peers", "has %d addresses, must be 3, 5 or 7; for a different number of nodes run separate servers, and name them with -nats", n))
	}
	if !slices.Contains(peers, own) {
		problems = append(problems, server.WrongValue("cluster-peers", "must have the address of this node, %q", own))
	}
	if seen := slices.Compact(slices.Sorted(slices.Values(peers))); len(seen) != len(peers) {
		problems = append(problems, server.WrongFlags("has an address twice", "cluster-peers"))
	}
	if f.maxStore < 0 {
		problems = append(problems, server.WrongValue("cluster-max-store", "is %d, must not be negative", f.maxStore))
	}
	switch {
	case f.secretFile == "" && f.secret == "":
		problems = append(problems, server.WrongFlags("needs the secret of the servers: in the variable "+secretVariable+", or in a file that -cluster-secret-file names; openssl rand -hex 24 makes one", "cluster-listen"))
	case f.secretFile == "" && len(f.secret) < leastSecret:
		problems = append(problems, server.WrongFlags("cannot be used with the secret in "+secretVariable+": it must have at least 16 characters", "cluster-listen"))
	}
	return problems
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// checkExternal checks the flags of servers that run already. No error shows an address, which may have a password.
func (f *nodeFlags) checkExternal() (problems []error) {
	for _, name := range f.embedded() {
		problems = append(problems, server.WrongFlags("is for a server inside of this node: leave out -nats, or this flag", name, "nats"))
	}
	for address := range strings.SplitSeq(f.nats, ",") {
		u, err := url.Parse(strings.TrimSpace(address))
		if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return append(problems, server.WrongFlags("has an address that cannot be read: write nats://HOST:4222 or tls://HOST:4222, and escape special characters of a password with %", "nats"))
		}
	}
	return problems
}

func (f *nodeFlags) peerList() (peers []string) {
	for peer := range strings.SplitSeq(f.peers, ",") {
		peers = append(peers, strings.TrimSpace(peer))
	}
	return peers
}

// checkShared refuses places that not all nodes can reach.
func (cfg *serveConfig) checkShared() (problems []error) {
	const forTables = "postgres://…, mysql://…, clickhouse://…, parquet:s3://BUCKET/PREFIX, iceberg:https://CATALOG, or dir: or parquet: and a folder that all nodes share"
	const forRows = "s3://BUCKET/PREFIX, gs://, azblob://, or dir: and a folder that all nodes share"
	if cfg.target == "" {
		problems = append(problems, server.WrongFlags("is required with -node: all nodes store their rows in the same tables. Write "+forTables, "target", "node"))
	} else if why := cfg.notShared(&cfg.places); why != "" {
		problems = append(problems, server.WrongFlags("is "+why+": write "+forTables, "target", "node"))
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.targets)) {
		if why := cfg.notShared(cfg.named(cfg.targets[name])); why != "" {
			problems = append(problems, server.WrongFlags(fmt.Sprintf("has the target %q, which is %s: write %s", name, why, forTables), "targets", "node"))
		}
	}
	if cfg.staging == "" {
		problems = append(problems, server.WrongFlags("is required with -node: another node must reach what a lost one has staged. Write "+forRows, "staging", "node"))
	} else if rest, ok := strings.CutPrefix(cfg.staging, "dir:"); ok && cfg.isPrivate(rest) {
		problems = append(problems, server.WrongFlags("is in the data directory, which each node has for itself: write "+forRows, "staging", "node"))
	}
	if rest, ok := strings.CutPrefix(cfg.archive, "dir:"); ok && cfg.isPrivate(rest) {
		problems = append(problems, server.WrongFlags("is in the data directory, which each node has for itself: write "+forRows, "archive", "node"))
	}
	return problems
}

// notShared says why not all nodes can use a target. It is empty if they can.
func (cfg *serveConfig) notShared(p *places) string {
	k, rest, err := p.kindOf()
	switch {
	case err != nil: // one of the problems of the places
		return ""
	case k.local != nil && k.local(rest):
		return "a database of one machine, which the other nodes cannot use"
	case cfg.isPrivate(rest):
		return "in the data directory, which each node has for itself"
	}
	return ""
}

// isPrivate reports whether a place is a folder below the data directory.
func (cfg *serveConfig) isPrivate(place string) bool {
	if strings.Contains(place, "://") {
		return false
	}
	data, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return false
	}
	folder, err := filepath.Abs(place)
	if err != nil {
		return false
	}
	relative, err := filepath.Rel(data, folder)
	return err == nil && filepath.IsLocal(relative)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (f *nodeFlags) readSecret() (string, error) {
	if f.secretFile == "" {
		return f.secret, nil
	}
	text, err := readBounded(f.secretFile)
	if err != nil {
		return "", fmt.Errorf("-cluster-secret-file: %w", err)
	}
	if text = bytes.TrimSpace(text); len(text) < leastSecret {
		return "", fmt.Errorf("-cluster-secret-file: %s has fewer than %d characters; openssl rand -hex 24 makes a secret", f.secretFile, leastSecret)
	}
	return string(text), nil
}

// tls returns the configuration of the connections to servers, nil without its flags. Between servers both sides must have a certificate.
func (f *nodeFlags) tls() (config *tls.Config, problems []error) {
	if f.cert == "" && f.ca == "" {
		return nil, nil
	}
	config = &tls.Config{MinVersion: tls.VersionTLS12}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			problems = append(problems, fmt.Errorf("-cluster-cert, -cluster-key: %w", err))
		}
		config.Certificates = []tls.Certificate{pair}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if f.ca != "" {
		text, err := readBounded(f.ca)
		config.RootCAs = x509.NewCertPool()
		if err == nil && !config.RootCAs.AppendCertsFromPEM(text) {
			err = fmt.Errorf("%s has no certificate in PEM", f.ca)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("-cluster-ca: %w", err))
		}
		config.ClientCAs = config.RootCAs
	}
	return config, problems
}
