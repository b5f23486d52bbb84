package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/seedtest"
)

// The test binary stands in for the program of the nodes.
func TestMain(m *testing.M) {
	if os.Getenv(nodeEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

var (
	cycles  = flag.Int("cycles", 10, "losses of TestLosses")
	nodes   = flag.Int("nodes", 3, "nodes of TestLosses")
	chaos   = flag.Bool("chaos", false, "build the nodes of TestLosses so that their clocks jump and their disks are slow; it compiles everything again")
	kinds   = flag.String("kinds", "", "kinds of losses of TestLosses, see the flag of the program")
	older   = flag.Int("older", 0, "how many commits the other build of TestLosses is older; 0: there is no other build")
	proxies = flag.Bool("proxies", false, "connect nodes by proxies even where the user may make network namespaces")
	settle  = flag.Duration("settle", 0, "how long all nodes are ready after each loss of TestLosses, see the flag of the program")
	seed    = flag.Uint64("seed", 0, "seed of the losses; 0: the one that FOREBAY_SEED gives, or a new one")
)

var lastLine = regexp.MustCompile(`\ncluster: sent=(\d+) rows=\d+ lost=0 duplicated=0 recovered=\S+ unconfirmed=\d+ stalled=\S+ losses=(\d+) damaged=(\d+)\n$`)

// play runs the program.
func play(t *testing.T, programs []string, events, losses int, args ...string) {
	t.Helper()
	from := *seed
	if from == 0 {
		from = seedtest.Of(t)
	}
	cfg, err := parseConfig(append(args, "-n", strconv.Itoa(events), "-dir", t.TempDir(), "-seed", strconv.FormatUint(from, 10)), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	cfg.program, cfg.other = programs[0], programs[1]
	cfg.connect = func(listen []string) (network, error) { return newNetwork(t, listen) }
	var out strings.Builder
	err = run(t.Context(), cfg, io.MultiWriter(&out, t.Output()))
	m := lastLine.FindStringSubmatch(out.String())
	sent := 0
	if m != nil {
		sent, _ = strconv.Atoi(m[1])
	}
	if err != nil || sent < events || m[2] != strconv.Itoa(losses) {
		logs, _ := filepath.Glob(filepath.Join(cfg.dir, "*.log"))
		for _, path := range logs {
			log, _ := os.ReadFile(path)
			t.Logf("%s:\n%s", path, log)
		}
		t.Fatalf("seed %d: got %d events, want at least %d, and no error: %v", cfg.seed, sent, events, err)
	}
	meant := 0
	for _, l := range cfg.losses() {
		if l.kind == damaged {
			meant++
		}
	}
	// The log of a node may be empty in the moment when it is killed.
	if got, _ := strconv.Atoi(m[3]); got > meant {
		t.Errorf("%d files were damaged, %d times a file was to be, want at most %v", got, meant, meant)
	}
}

// Damage changes one file of a log, and says if there is none with anything in it.
func TestDamage(t *testing.T) {
	p := newProcess(nodeConfig{Name: "a", Dir: t.TempDir()}, nil, nil)
	blocks := map[string]string{"FB_main_L_a-0_x/msgs/1.blk": "", "FB_main_L_b-0_y/msgs/1.blk": "", "KV_FB_main_own/msgs/1.blk": "records"}
	write := func() {
		t.Helper()
		for name, text := range blocks {
			path := filepath.Join(p.server(), "jetstream", "account", "streams", name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	changed := func() (names []string) {
		t.Helper()
		for name, text := range blocks {
			got, err := os.ReadFile(filepath.Join(p.server(), "jetstream", "account", "streams", name))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != text {
				names = append(names, name)
			}
		}
		return names
	}
	rng := rand.New(rand.NewPCG(1, 1))
	write()
	if what, done, err := p.damage(rng); done || err != nil || len(changed()) > 0 {
		t.Errorf("without a block that has records: %q, %t, %v, changed are %q", what, done, err, changed())
	}
	blocks["FB_main_L_b-0_y/msgs/1.blk"] = strings.Repeat("record", 100)
	for range 20 {
		write()
		what, done, err := p.damage(rng)
		if got := changed(); !done || err != nil || len(got) != 1 || !strings.HasPrefix(got[0], "FB_main_L_b-0_y/") || !strings.HasPrefix(what, "FB_main_L_b-0_y/") {
			t.Errorf("%q, %t, %v, changed are %q", what, done, err, got)
		}
	}
}

// The story that the program plays by default.
func TestCluster(t *testing.T) { play(t, []string{"", ""}, 3000, 3, "-settle", "500ms") }

// Nodes are lost at random: killed, stopped past the lease, cut off, deaf, without their disks, with a damaged copy of a log, with a wrong clock, with a slow
// disk, and with an earlier build in their place.
func TestLosses(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes of losses")
	}
	programs := []string{"", ""}
	if *chaos || *older > 0 {
		programs[0] = build(t, ".")
	}
	if *older > 0 {
		programs[1] = buildOf(t, fmt.Sprintf("HEAD~%d", *older))
	}
	args := []string{"-nodes", strconv.Itoa(*nodes), "-cycles", strconv.Itoa(*cycles), "-checkpoint-bytes", "50000", "-settle", settle.String()}
	if *kinds != "" {
		args = append(args, "-kinds", *kinds)
	}
	play(t, programs, 200*(*cycles+1), *cycles, args...)
}

// compare counts missing, doubled and unexpected rows separately.
func TestCompare(t *testing.T) {
	acked := map[string]*process{"1-1": nil, "2-1": nil, "3-2": nil}
	a := compare(acked, map[string]int{"1-1": 1, "2-1": 3, "3-1": 1})
	if got := fmt.Sprintf("%d %d %d %d %q", a.rows, a.lost, a.duplicated, a.unconfirmed, a.examples); got != `5 1 2 1 ["lost 3-2" "doubled 2-1"]` {
		t.Error(got)
	}
}

// The table counts from the start of a fault to its end. Nodes that the fault concerns have no part in the column of nodes that are well.
func TestFigures(t *testing.T) {
	a, b, c := new(process), new(process), new(process)
	begin := time.Unix(0, 0)
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	var f figures
	f.add([]ack{{a, at(1), time.Second}, {b, at(3), 2 * time.Second}, {a, at(8), 3 * time.Second}, {b, at(9), 4 * time.Second}}, begin, at(12), 2*time.Second,
		[]*process{a, b, c}, []*process{c})
	if got, want := f.String(), "1 | 2.0, 2.0 | 5.0 | 7.0 | 4.0, 4.0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	f.add(nil, begin, at(30), 4*time.Second, []*process{a}, []*process{a}) // no node is well
	if got := new(figures).String(); !strings.Contains(got, "| – |") {
		t.Errorf("got %s, want a dash where no node was well", got)
	}
	if got, want := f.String(), "2 | 4.0, 4.0 | 30.0 | 7.0 | 4.0, 4.0"; got != want {
		t.Errorf("after a fault without an acknowledgement: got %s, want %s", got, want)
	}
}
