package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/certtest"
	"github.com/forebay/forebay/internal/porttest"
	"github.com/forebay/forebay/stream/streamapi"
)

// clusterFile is a valid configuration of a node.
const clusterFile = `target: parquet:s3://tables
staging: s3://staging
token: token-of-all-nodes
cluster:
  node: a
  listen: 10.0.0.1:6222
  peers: ['10.0.0.1:6222', '10.0.0.2:6222', '10.0.0.3:6222']
`

// Every mistake in the section of a node is found without opening anything, with its place and without a secret.
func TestMistakesOfANode(t *testing.T) {
	env := map[string]string{secretVariable: "hunter2-hunter2-hunter2"}
	const peers = "peers: ['10.0.0.1:6222', '10.0.0.2:6222', '10.0.0.3:6222']"
	for _, tt := range []struct{ old, new, want string }{
		{"node: a", "node: a b", `5:9: node is "a b", must be 1 to 100 letters`},
		{"  node: a\n", "", "5:11: cluster-listen is for a node of a cluster"},
		{"node: a", "nod: a", `5:3: unknown key "nod"; do you mean "node"?`},
		{"cluster:", "node: a\ncluster:", `4:1: unknown key "node"`},
		{"listen: 10.0.0.1:6222", "listen: 10.0.0.1", `6:11: cluster-listen has "10.0.0.1", must be HOST:PORT`},
		{"listen: 10.0.0.1:6222", "listen: 10.0.0.1:0", `6:11: cluster-listen has "10.0.0.1:0"`},
		{"listen: 10.0.0.1:6222", "listen: 0.0.0.0:6222", `7:10: cluster-peers must have the address of this node, "0.0.0.0:6222"`},
		{"listen: 10.0.0.1:6222", "listen: 0.0.0.0:6222\n  advertise: here", `7:14: cluster-advertise has "here"`},
		{peers, "peers: 10.0.0.1:6222", "7:10: cluster-peers has 1 addresses, must be 3, 5 or 7"},
		{"'10.0.0.3:6222'", "'10.0.0.2:6222'", "7:10: cluster-peers has an address twice"},
		{"'10.0.0.3:6222'", "x", `7:10: cluster-peers has "x"`},
		{"  " + peers + "\n", "", "5:9: node needs servers of NATS"},
		{"node: a", "node: a\n  max-store: -1", "6:14: cluster-max-store is -1"},
		{"node: a", "node: a\n  cert: a.pem", "6:9: cluster-cert must come with"},
		{"node: a", "node: a\n  key: a.pem", "6:8: cluster-key must come with"},
		{"node: a", "node: a\n  ca: a.pem", "6:7: cluster-ca needs -cluster-cert"},
		{"node: a", "node: a\n  nats-credentials: a", "6:21: nats-credentials is for a user of -nats"},
		{"node: a", "node: a\n  nats: nats://me:hunter2@host", "7:11: cluster-listen is for a server inside of this node"},
		{"listen: 10.0.0.1:6222\n  " + peers, "nats: [nats://me:hunter2@host, 'me:hunter2@host:1']", "6:9: nats has an address that cannot be read"},
		{"listen: 10.0.0.1:6222\n  " + peers, "nats: 'nats://me:hunter2/@host:4222'", "6:9: nats has an address that cannot be read"},
		{"token: token-of-all-nodes\n", "", "4:9: -token is required with -node"},
		{"cluster:", "admin: 127.0.0.1:1\ncluster:", "4:8: admin is for a server alone"},
		{"cluster:", "source: web\ncluster:", "4:9: source is for a server alone"},
		{"cluster:", "sources: []\ncluster:", "6:9: node excludes sources in the file"},
		{"target: parquet:s3://tables", "log-level: info", "5:9: -target is required with -node"},
		{"staging: s3://staging", "log-level: info", "5:9: -staging is required with -node"},
		{"target: parquet:s3://tables", "target: sqlite:/srv/events.db", "1:9: target is a database of one machine, which the other nodes cannot use: write postgres://"},
		{"target: parquet:s3://tables", "target: duckdb:/srv/events.db", "1:9: target is a database of one machine"},
		{"target: parquet:s3://tables", "target: iceberg:/srv/lake", "1:9: target is a database of one machine"},
		{"target: parquet:s3://tables", "target: dir:data/tables", "1:9: target is in the data directory"},
		{"target: parquet:s3://tables", "target: parquet:x/../data/lake", "1:9: target is in the data directory"},
		{"cluster:", "targets: {lake: 'sqlite:/srv/lake.db'}\ncluster:", `4:10: targets has the target "lake", which is a database of one machine, which the other nodes cannot use: write postgres://`},
		{"cluster:", "targets: {lake: 'parquet:data/lake'}\ncluster:", `4:10: targets has the target "lake", which is in the data directory`},
		{"staging: s3://staging", "staging: dir:data/staging", "2:10: staging is in the data directory"},
		{"cluster:", "archive: dir:data/raw\ncluster:", "4:10: archive is in the data directory"},
		{"cluster:", "cluster: a\nother:", "4:10: cluster must have keys with values"},
	} {
		if leftOut(tt.new) {
			continue
		}
		text := strings.Replace(clusterFile, tt.old, tt.new, 1)
		status, out, errs := checkFile(t, text, env)
		if status != wrongUsage || text == clusterFile || !strings.Contains(errs, "FILE:"+tt.want) || strings.Contains(out+errs, "hunter2") {
			t.Errorf("got %s\nstatus %d, want %q\n%s%s", text, status, tt.want, out, errs)
		}
	}
	for secret, want := range map[string]string{"": "needs the secret of the servers", "hunter2": "must have at least 16 characters"} {
		if status, out, errs := checkFile(t, clusterFile, map[string]string{secretVariable: secret}); status != wrongUsage || !strings.Contains(errs, want) || strings.Contains(out+errs, "hunter2") {
			t.Errorf("status %d, want %q\n%s%s", status, want, out, errs)
		}
	}
	if status, _, errs := call(t, "", nil, "otlp", "-node", "a"); status != wrongUsage || !strings.Contains(errs, "-node is a flag of serve") {
		t.Errorf("otlp: status %d\n%s", status, errs)
	}
	for _, text := range []string{
		clusterFile,
		strings.Replace(clusterFile, "parquet:s3://tables", "postgres://me@host/x", 1),
		strings.Replace(clusterFile, "cluster:", "targets: {lake: 'parquet:s3://lake'}\ncluster:", 1),
		strings.Replace(clusterFile, "parquet:s3://tables", "iceberg:https://catalog/v1?warehouse=w", 1),
		strings.NewReplacer("parquet:s3://tables", "dir:/srv/shared/tables", "s3://staging", "dir:/srv/shared/staging").Replace(clusterFile),
		strings.Replace(clusterFile, "listen: 10.0.0.1:6222", "listen: 0.0.0.0:6222\n  advertise: 10.0.0.1:6222\n  cert: a.pem\n  key: a.key\n  ca: ca.pem\n  secret-file: secret", 1),
		"target: parquet:s3://tables\nstaging: s3://staging\ntoken: x\ncluster: {node: d, nats: [nats://a:4222, nats://b:4222], nats-credentials: me.creds}",
	} {
		if leftOut(text) {
			continue
		}
		if status, out, errs := checkFile(t, text, env); status != 0 || !strings.Contains(out, " of a cluster, target ") {
			t.Errorf("%s\ngot status %d\n%s%s\nwant 0, a node of a cluster", text, status, out, errs)
		}
	}
}

// The files of a node are read before anything is opened, and all that is wrong with them is said at once.
func TestFilesOfANode(t *testing.T) {
	folder := t.TempDir()
	file, secret, data := filepath.Join(folder, "forebay.yaml"), filepath.Join(folder, "secret"), filepath.Join(folder, "data")
	write(t, secret, "hunter2\n")
	write(t, file, strings.Replace(clusterFile, "node: a", "node: a\n  cert: none.pem\n  key: none.key\n  ca: "+secret+"\n  secret-file: "+secret, 1))
	if err := os.MkdirAll(filepath.Join(data, "local"), 0o700); err != nil {
		t.Fatal(err)
	}
	status, out, errs := call(t, "", nil, "serve", "-config", file, "-dir", data)
	for _, want := range []string{
		"-cluster-cert, -cluster-key: open none.pem", "-cluster-ca: " + secret + " has no certificate", "-cluster-secret-file: " + secret + " has fewer than 16",
		"-dir: " + data + " has the rows of a server without -node",
	} {
		if status != failed || !strings.Contains(errs, want) || strings.Contains(out+errs, "hunter2") {
			t.Errorf("status %d, want %q in\n%s%s", status, want, out, errs)
		}
	}
}

// clusterPatience is how long a test of processes waits for one condition. An election takes 4 to 9 s, a lease 12 s.
const clusterPatience = 90 * time.Second

// addresses returns addresses without a listener.
func addresses(t *testing.T, n int) []string {
	t.Helper()
	free, err := porttest.Addresses(n)
	if err != nil {
		t.Fatal(err)
	}
	return free
}

// apiCall calls the Stream API of a process and decodes the response.
func (s *serving) apiCall(method, path, body string, answer any) error {
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.addr["api"]+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-StorageApi-Token", clusterToken)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %d %s, %v", method, path, resp.StatusCode, text, err)
	}
	return json.Unmarshal(text, answer)
}

const clusterToken = "token-of-all-nodes"

// eventually repeats a call until it returns nil. The pauses are short, and the deadline is long.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clusterPatience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: got %v, want no error before the time is over", what, err)
		}
	}
}

type apiTask struct {
	Status, Error, URL string
}

// change makes a change by the Stream API of a node, and waits for its task at a different node.
func change(t *testing.T, at, other *serving, method, path, body string) {
	t.Helper()
	var task apiTask
	if err := at.apiCall(method, path, body, &task); err != nil {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(task.URL, "/v1/")
	eventually(t, path, func() error {
		var now apiTask
		if err := other.apiCall(http.MethodGet, "/v1/"+id, "", &now); err != nil || now.Status != "success" {
			return fmt.Errorf("the task is %+v, %v", now, err)
		}
		return nil
	})
}

// nodeState is the response of /readiness-check.
type nodeState struct {
	Node, Instance, Missing string
	Ready                   bool
	Adopted                 []string
}

func (s *serving) state() (state nodeState, err error) {
	resp, err := http.Get("http://" + s.addr["ingest"] + "/readiness-check")
	if err != nil {
		return state, err
	}
	defer resp.Body.Close()
	return state, json.NewDecoder(resp.Body).Decode(&state)
}

// writePair writes a certificate and its key into files.
func writePair(t *testing.T, folder, certificate, key string) (certFile, keyFile string) {
	t.Helper()
	certFile, keyFile = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	write(t, certFile, certificate)
	write(t, keyFile, key)
	return certFile, keyFile
}

// idsOf reads how often each id is in a folder table.
func idsOf(t *testing.T, folder string) map[string]int {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(folder, "*.csv"))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]int{}
	for _, part := range parts {
		f, err := os.Open(part)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(f).ReadAll()
		f.Close()
		if err != nil {
			t.Fatalf("%s: got %v, want no error", part, err)
		}
		at := slices.Index(rows[0], "id")
		for _, row := range rows[1:] {
			ids[row[at]]++
		}
	}
	return ids
}

// Three processes are a cluster, whose servers talk over TLS, and one of them is lost.
func TestServeCluster(t *testing.T) {
	folder := t.TempDir()
	secret := filepath.Join(folder, "secret")
	write(t, secret, "secret-of-the-servers\n")
	certificate, private := certtest.Pair(t)
	cert, key := writePair(t, folder, certificate, private)
	peers := addresses(t, 3)
	nodes := make([]*serving, 3)
	for i, name := range []string{"a", "b", "c"} {
		nodes[i] = launch(t, []string{"FOREBAY_TOKEN=" + clusterToken}, "serve", "-node", name, "-dir", filepath.Join(folder, name),
			"-cluster-listen", peers[i], "-cluster-peers", strings.Join(peers, ","), "-cluster-secret-file", secret,
			"-cluster-cert", cert, "-cluster-key", key, "-cluster-ca", cert,
			"-target", "dir:"+filepath.Join(folder, "tables"), "-staging", "dir:"+filepath.Join(folder, "staging"))
		if i == 1 {
			nodes[0].waitLog("waits for", 1) // for the third one
		}
	}
	loseFirst(t, nodes, folder)
	for _, node := range nodes {
		if logs := node.Logs(); strings.Contains(logs, "secret-of-the-servers") || strings.Contains(logs, clusterToken) {
			t.Error("a secret is logged")
		}
	}
}

// loseFirst waits until the nodes are ready, and kills the first one while clients send to all, so that another node takes over its rows. The
// table in folder has each acknowledged event once. Then it ends the other nodes.
func loseFirst(t *testing.T, nodes []*serving, folder string) {
	t.Helper()
	for _, node := range nodes {
		timer := time.AfterFunc(clusterPatience, node.Kill)
		node.awaitReady()
		timer.Stop()
	}
	const sources = "/v1/branches/default/sources"
	change(t, nodes[0], nodes[1], http.MethodPost, sources, `{"type":"http","name":"Shop","sinks":[{"type":"table","name":"Orders","table":{"type":"`+streamapi.DefaultTableType+`",
		"tableId":"in.c-shop.orders","mapping":{"columns":[{"type":"path","name":"id","path":"id","rawString":true}]}}}]}`)
	change(t, nodes[1], nodes[len(nodes)-1], http.MethodPatch, sources+"/shop/settings", `{"settings":[
		{"key":"storage.level.staging.upload.trigger.interval","value":"1s"},{"key":"storage.level.target.import.trigger.count","value":1}]}`)
	var source struct{ HTTP struct{ URL string } }
	if err := nodes[len(nodes)-1].apiCall(http.MethodGet, sources+"/shop", "", &source); err != nil {
		t.Fatal(err)
	}
	_, path, _ := strings.Cut(strings.TrimPrefix(source.HTTP.URL, "http://"), "/")

	var clients sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	acknowledged := map[string]int{} // the node of each id
	taken := func(node int) (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, at := range acknowledged {
			if at == node {
				n++
			}
		}
		return n
	}
	for i, node := range nodes {
		for c := range 2 {
			clients.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					id := fmt.Sprintf("%d-%d-%d", i, c, n) // each attempt has its own id
					if status, _ := node.post("ingest", "/"+path, `{"id":"`+id+`"}`); status == http.StatusOK {
						mu.Lock()
						acknowledged[id] = i
						mu.Unlock()
					}
					select { // 200 events a second are enough, and a node that is away is not asked all the time
					case <-ctx.Done():
					case <-time.After(5 * time.Millisecond):
					}
				}
			})
		}
	}
	atLeast := func(node, more int) func() error {
		want := taken(node) + more
		return func() error {
			if n := taken(node); n < want {
				return fmt.Errorf("node %d has %d events of %d", node, n, want)
			}
			return nil
		}
	}
	for i := range nodes {
		eventually(t, "events", atLeast(i, 200))
	}
	lost, err := nodes[0].state()
	if err != nil || lost.Node != "a" {
		t.Fatalf("got %+v, %v, want no error and lost.Node == \"a\"", lost, err)
	}
	nodes[0].Kill()
	eventually(t, "another node takes over", func() error {
		var states []nodeState
		for _, node := range nodes[1:] {
			state, err := node.state()
			if err != nil {
				return err
			}
			if slices.Contains(state.Adopted, lost.Instance) {
				return nil
			}
			states = append(states, state)
		}
		return fmt.Errorf("%s is not adopted: %+v", lost.Instance, states)
	})
	for i := range nodes[1:] {
		eventually(t, "events after the loss", atLeast(i+1, 50))
	}
	stop()
	clients.Wait()
	if taken(0) == 0 {
		t.Error("the lost node had acknowledged nothing")
	}
	table := filepath.Join(folder, "tables", "in.c-shop.orders")
	eventually(t, "all rows in the table", func() error {
		ids := idsOf(t, table)
		for id, node := range acknowledged {
			if ids[id] == 0 {
				return fmt.Errorf("%s of node %d is missing; %d of %d are there", id, node, len(ids), len(acknowledged))
			}
		}
		return nil
	})
	t.Logf("%d events were acknowledged, %d by the node that was lost; all are in the table", len(acknowledged), taken(0))
	// All are stopped at once, so the last one may have no majority of servers. It has nothing left to write.
	for _, node := range nodes[1:] {
		if err := node.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range nodes[1:] {
		if err := node.Err(); err != nil {
			t.Error(err)
		}
	}
	for id, n := range idsOf(t, table) {
		if n > 1 {
			t.Errorf("%s is in the table %d times, want at most 1", id, n)
		}
	}
}
