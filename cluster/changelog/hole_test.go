package changelog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
)

// Each of five batches is read once, as long as one replica has it and all can be asked.
func TestHolesOfReplicas(t *testing.T) {
	for _, c := range []struct {
		name  string
		holes [3][]uint64 // the batches that a replica lacks
		away  []int
		want  error
		first int // so many batches are read before the error
	}{
		{name: "none"},
		{name: "the leader", holes: [3][]uint64{{2, 3}}},
		{name: "the leader and the next", holes: [3][]uint64{{2}, {2}}},
		{name: "each another one", holes: [3][]uint64{{2}, {4}, {1}}},
		{name: "the last batch", holes: [3][]uint64{{5}}},
		{name: "a follower", holes: [3][]uint64{1: {2}}, away: []int{2}},
		{name: "the leader, and the next is away", holes: [3][]uint64{{2}}, away: []int{1}},
		{name: "all", holes: [3][]uint64{{3}, {3}, {3}}, want: changelog.ErrHole, first: 2},
		{name: "all that can be asked", holes: [3][]uint64{{3}, {3}}, away: []int{2}, want: errUnasked, first: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := changelogtest.NewLog(1, changelogtest.Faults{})
			if err := log.Create(t.Context(), "i"); err != nil {
				t.Fatal(err)
			}
			a := openAppender(t, appenderOptions(t, log))
			var want []string
			var positions []changelog.Position
			for i := range 5 {
				want = append(want, fmt.Sprint("batch ", i+1))
				if err := a.Append([]byte(want[i])).Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				positions = append(positions, a.State().Released.Position)
			}
			a.Close()
			for replica, numbers := range c.holes {
				for _, n := range numbers {
					log.Hole("i", replica, positions[n-1])
				}
			}
			log.Cut("i", c.away...)
			if c.want != nil {
				want = want[:c.first]
			}
			check := func(how string, got []string, err error) {
				t.Helper()
				switch {
				case c.want == errUnasked:
					if err == nil || errors.Is(err, changelog.ErrHole) || !strings.Contains(err.Error(), "replica 2 is away") {
						t.Errorf("%s: got %v, want that it is not known whether the away replica has it", how, err)
					}
				case !errors.Is(err, c.want):
					t.Errorf("%s: got %v, want %v", how, err, c.want)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s: got %q, want %q", how, got, want)
				}
			}
			log.Elect("i", 0)
			got, _, err := readAll(log, changelog.Point{})
			check("Batches", got, err)

			log.Elect("i", 0)
			opts := appenderOptions(t, log)
			epoch := uint64(10)
			opts.NextEpoch = func(context.Context) (uint64, error) { epoch++; return epoch, nil }
			var said strings.Builder
			opts.Logger = slog.New(slog.NewTextHandler(&said, nil))
			got = nil
			opts.Apply = func(_ context.Context, b changelog.StoredBatch) error {
				got = append(got, string(b.Data))
				return nil
			}
			a, err = changelog.OpenAppender(t.Context(), opts)
			if err == nil {
				defer a.Close()
			}
			check("OpenAppender", got, err)
			if asked := strings.Contains(said.String(), "log has a hole"); asked != (len(c.holes[0]) > 0) {
				t.Errorf("the logger got %q", said.String())
			}
		})
	}
}

var errUnasked = errors.New("a replica cannot be asked")

// Whoever has enough gets nothing more, and may begin again.
func TestBatchesBehindAHoleMayBeLeft(t *testing.T) {
	log := changelogtest.NewLog(1, changelogtest.Faults{})
	if err := log.Create(t.Context(), "i"); err != nil {
		t.Fatal(err)
	}
	a := openAppender(t, appenderOptions(t, log))
	for range 3 {
		if err := a.Append([]byte("x")).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	log.Hole("i", 0, a.State().Released.Position-1)
	batches := changelog.Batches(t.Context(), log, "i", changelog.Point{})
	for range 2 {
		log.Elect("i", 0)
		number := uint64(0)
		for b, err := range batches {
			if number++; err != nil || b.Number != number {
				t.Fatalf("batch %d, %v, want batch %d", b.Number, err, number)
			}
			if number == 2 {
				break
			}
		}
	}
}
