package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/drivers/postgres/pgtest"
)

func TestMain(m *testing.M) {
	if runs, err := asPeer(); runs {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func openDatabase(t *testing.T) *database {
	t.Helper()
	db := &database{}
	t.Cleanup(db.close)
	err := db.open(t.Context())
	if errors.Is(err, pgtest.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// measured measures what the options ask for.
func measured(t *testing.T, db *database, p *peer, o options) *result {
	t.Helper()
	r := &result{}
	for _, part := range []struct {
		wanted  bool
		measure func(measurement) error
	}{
		{o.duration > 0, func(m measurement) error { return m.speed(t.Context(), r) }},
		{o.kills > 0, func(m measurement) error { return m.kill(t.Context(), r) }},
		{o.outage > 0, func(m measurement) error { return m.away(t.Context(), r) }},
	} {
		if !part.wanted {
			continue
		}
		if err := (measurement{options: o, db: db, peer: p}).in(t.Context(), part.measure); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// Every peer stores what it has confirmed if nothing fails. Forebay and the inserting handler do so through a kill and an outage, once each, and so
// does Connect, perhaps twice.
func TestPeers(t *testing.T) {
	db := openDatabase(t)
	promises := map[string]struct{ none, twice bool }{"forebay-1s": {true, true}, "inserts": {true, true}, "connect": {none: true}, "connect-batches": {none: true}}
	for _, p := range peers {
		if p.name == "forebay" { // the same program, whose rows arrive a minute later
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			promise := promises[p.name]
			o := options{duration: time.Second, settle: time.Minute, rate: 500, batch: batch{Rows: 1000, Every: 100 * time.Millisecond}}
			if promise.none {
				o.kills, o.outage = 1, time.Second
			}
			r := measured(t, db, p, o)
			s := r.Rounds[0]
			if s.Audit.Lost > 0 || s.PerS == 0 || s.P99 < s.P50 || s.P50 == 0 || s.Fresh == 0 || s.MemoryMB == 0 || s.CPU == 0 {
				t.Errorf("without a fault: got %+v, want every figure and no lost row", s)
			}
			for name, f := range map[string]fault{"kill": r.Kills, "outage": r.Outage} {
				if promise.none && (f.Audit.Lost > 0 || f.Audit.Acknowledged == 0 || promise.twice && f.Audit.Doubled > 0) {
					t.Errorf("%s: got %+v, want every row, once where the peer promises it", name, f)
				}
			}
			if p.name == "inserts" && r.Outage.Refused == 0 {
				t.Errorf("outage: got no refused request, want some")
			}
		})
	}
}

// The other peers run through both faults too. A batch that is never full is lost with the process.
func TestFaultsAreSeen(t *testing.T) {
	db := openDatabase(t)
	for _, name := range []string{"batcher", "collector", "collector-disk", "jetstream", "jetstream-sync"} {
		t.Run(name, func(t *testing.T) {
			p, err := peerNamed(name)
			if err != nil {
				t.Fatal(err)
			}
			r := measured(t, db, p, options{settle: time.Millisecond, rate: 500, kills: 1, outage: time.Millisecond, batch: batch{Rows: 1 << 30, Every: time.Hour}})
			if a := r.Kills.Audit; a.Acknowledged == 0 || name == "batcher" && a.Lost != a.Acknowledged {
				t.Errorf("got %+v, want acknowledged rows, and those in the memory of the batcher lost", a)
			}
		})
	}
}

func TestAudit(t *testing.T) {
	db := openDatabase(t)
	if err := db.reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := newLoad(peers[0], "", 0)
	l.calls[1] = []sentEvent{{ok: true}, {ok: true}, {ok: true}, {}}
	l.acked.Store(3)
	id := l.first + perConnection
	if err := db.exec(t.Context(), fmt.Sprintf("INSERT INTO events SELECT unnest(array[%d, %d, %d, %d]), '{}'", id, id, id+1, id+3)); err != nil {
		t.Fatal(err)
	}
	a, err := db.settled(t.Context(), l, time.Millisecond)
	if err != nil || a.Acknowledged != 3 || a.Lost != 1 || a.Doubled != 1 || a.Unknown != 1 {
		t.Errorf("got %+v, %v, want 3 acknowledged rows, of which one is lost, and one twice, and one more that was refused", a, err)
	}
}

// The command measures and prints one line for each peer.
func TestRun(t *testing.T) {
	openDatabase(t) // skips the test without PostgreSQL
	var out, log bytes.Buffer
	args := []string{"-peers", "inserts,batcher", "-duration", "100ms", "-warm", "0s", "-outage", "10ms", "-settle", "10ms", "-kills", "1", "-rounds", "3", "-rate", "100"}
	if err := run(t.Context(), args, &out, &log); err != nil {
		t.Fatalf("got %v: %s, want no error", err, &log)
	}
	if lines := strings.Split(out.String(), "\n"); !strings.HasPrefix(lines[2], "| inserts | ") || !strings.Contains(lines[2], " | 1.00 | ") || !strings.HasPrefix(lines[3], "| batcher | ") {
		t.Errorf("got\n%s\nwant a line for each peer", &out)
	}
}
