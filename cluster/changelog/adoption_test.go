package changelog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/internal/synctest"
)

// An owner stalls past its lease while the log works. It acknowledges nothing more, its adopter reads everything it has acknowledged,
// and when it resumes it learns that it was fenced.
func TestAdopterReadsWhatTheOwnerAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners, log := changelogtest.NewOwners(1, changelogtest.Faults{}), changelogtest.NewLog(1, changelogtest.Faults{})
		if err := log.Create(t.Context(), "ia"); err != nil {
			t.Fatal(err)
		}
		appender := func(k *changelog.Keeper, apply func(string)) *changelog.Appender {
			a, err := changelog.OpenAppender(t.Context(), changelog.AppenderOptions{
				Log: log, Instance: k.Instance(), Node: k.Owner().Node,
				Apply:    func(_ context.Context, b changelog.StoredBatch) error { apply(string(b.Data)); return nil },
				Released: k.Owner().Released, NextEpoch: k.NextEpoch, Valid: k.Valid,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(a.Close)
			return a
		}
		a, b := startProcess(t, newLink(owners), "a", "ia", 0), startProcess(t, newLink(owners), "b", "ib", 0)
		owner := appender(a.own, func(data string) { t.Errorf("the empty log has %q", data) })
		var acknowledged []string
		for i := range 20 {
			data := fmt.Sprint("batch ", i)
			p := owner.Append([]byte(data))
			if err := p.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			a.own.SetReleased(p.Number())
			acknowledged = append(acknowledged, data)
		}
		if err := a.own.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		resume := a.stop()
		time.Sleep(lease)
		late := owner.Append([]byte("late"))
		ctx, cancel := context.WithTimeout(t.Context(), lease/2)
		defer cancel()
		if err := late.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a batch behind the lease ended with %v", err)
		}
		k := b.next(t)
		if k.Owner().Released != 20 {
			t.Errorf("the adopter knows of %d released batches", k.Owner().Released)
		}
		var restored []string
		adopter := appender(k, func(data string) { restored = append(restored, data) })
		// The late batch may have reached the log before the adopter did.
		if n := len(acknowledged); len(restored) < n || len(restored) > n+1 || !slices.Equal(restored[:n], acknowledged) {
			t.Errorf("acknowledged was %q, and restored %q", acknowledged, restored)
		}
		resume()
		if err := late.Wait(t.Context()); !errors.Is(err, changelog.ErrFenced) {
			t.Errorf("the late batch ended with %v", err)
		}
		if err := adopter.Append([]byte("of the adopter")).Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
