package changelog

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The record of a retired instance tells owners that return late that their time is over. It can be deleted nevertheless, because the
// facts about all of them together fit into one record, of the key eraKey:
//
//   - The name of an instance has the era in which it was drawn. See [NewInstance].
//   - [Forget] deletes records of retired instances of earlier eras alone. To delete younger ones it begins another era first.
//   - An owner that finds no record of its instance, whose name is of an earlier era, is fenced because the record was deleted.
//   - If the name is of the present era, the record was not deleted. There was none yet, or the store of owners went back. The owner may
//     write one. It claims the name first, by replacing the record of eras that it has read, and Forget passes over claimed names. So
//     no node begins an era, and deletes the record, between the owner's read and its write.
//
// Both sides replace a version of the record of eras, so that neither relies on old state, neither the owner that reads that there is no
// record, nor Forget, which might not know of a claim.
//
// Two designs lost. A record that is deleted after a time fences no owner that returns later, and a list of all retired instances
// grows forever.
const eraKey = "era"

// eras is the record of the key eraKey.
type eras struct {
	Format int `json:"format"`
	// Era is the present one. The first is 0.
	Era uint64 `json:"era"`
	// Claims are the processes that are about to write a record where there is none.
	Claims []claim `json:"claims,omitempty"`
}

// claim identifies a process. A stalled process may write after its successor in the same instance, so each process has a separate claim.
type claim struct {
	Instance string `json:"instance"`
	Session  string `json:"session"`
}

func (k *Keeper) claim() claim { return claim{k.instance, k.session} }

const erasFormat = 1

// readEras returns the record of eras, which may be an old one, and its version.
func readEras(ctx context.Context, owners Owners) (e eras, version Version, err error) {
	got, err := owners.Get(ctx, eraKey)
	if err != nil || got.Version == 0 {
		return eras{}, 0, err
	}
	if err := json.Unmarshal(got.Value, &e); err != nil {
		return e, got.Version, fmt.Errorf("the record of eras is unreadable: %w", err)
	}
	if e.Format != erasFormat {
		return e, got.Version, fmt.Errorf("the format of the record of eras is %d, this release reads %d: upgrade this node", e.Format, erasFormat)
	}
	return e, got.Version, nil
}

func (e eras) replace(ctx context.Context, owners Owners, version Version) error {
	e.Format = erasFormat
	value, err := json.Marshal(e)
	if err == nil {
		_, err = owners.CompareAndSet(ctx, eraKey, version, value)
	}
	return err
}

// NewInstance draws a name that no instance has had, such as a-0_k2x9q7mw. It consists of the node's name, the era
// and a random end.
func NewInstance(ctx context.Context, owners Owners, node string) (string, error) {
	e, _, err := readEras(ctx, owners) // if it is old, Take finds out
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s-%d_%s", node, e.Era, strings.ToLower(rand.Text()[:8])), nil
}

var eraOfName = regexp.MustCompile(`-([0-9]{1,18})_[a-z2-7]{8}$`)

// eraOf returns the era of a name. Other names have none, so their records are never deleted.
func eraOf(instance string) (era uint64, ok bool) {
	m := eraOfName.FindStringSubmatch(instance)
	if m == nil {
		return 0, false
	}
	era, err := strconv.ParseUint(m[1], 10, 64)
	return era, err == nil
}

// Forget deletes records of instances that are [Retired], as they were read. It begins another era where it must. It passes over records that
// have changed, that are not of a retired instance, that a process claims, or whose names have no era. An owner that returns later is
// fenced all the same. Forget may be called by several nodes at once; ErrLost says that another call was first, and that a later call continues.
func Forget(ctx context.Context, owners Owners, retired ...Versioned) error {
	e, version, err := readEras(ctx, owners)
	if err != nil {
		return fmt.Errorf("forget retired instances: %w", err)
	}
	next := e
	var gone []Versioned
	for _, v := range retired {
		instance := strings.TrimPrefix(v.Key, ownerPrefix)
		era, named := eraOf(instance)
		var o Owner
		if !named || o.UnmarshalJSON(v.Value) != nil || o.State != Retired ||
			slices.ContainsFunc(e.Claims, func(c claim) bool { return c.Instance == instance }) {
			continue
		}
		next.Era = max(next.Era, era+1)
		gone = append(gone, v)
	}
	if next.Era > e.Era {
		if err := next.replace(ctx, owners, version); err != nil {
			return fmt.Errorf("begin era %d: %w", next.Era, err)
		}
	}
	for _, v := range gone {
		if err := owners.Delete(ctx, v.Key, v.Version); err != nil && !errors.Is(err, ErrLost) {
			return fmt.Errorf("forget instance %s: %w", strings.TrimPrefix(v.Key, ownerPrefix), err)
		}
	}
	return nil
}

// claimName is called when the store of owners shows no record of the instance, before one is written. It fails with a FencedError if the
// record was deleted, and with any other error if it is not known.
func (k *Keeper) claimName(ctx context.Context) error {
	era, named := eraOf(k.instance)
	if !named {
		return nil
	}
	ctx, cancel := k.bounded(ctx)
	defer cancel()
	e, version, err := readEras(ctx, k.owners)
	switch {
	case err != nil:
		return err
	case e.Era > era:
		return k.fenced(Owner{State: Retired, Epoch: k.held.Epoch + 1})
	case !slices.Contains(e.Claims, k.claim()):
		e.Claims = append(e.Claims, k.claim())
	}
	if err := e.replace(ctx, k.owners, version); err != nil { // even if it has the claim, because the read may be old
		return fmt.Errorf("claim the name %s: %w", k.instance, err)
	}
	k.claimed = true
	return nil
}

// unclaimName takes the claim back when the record is written. Where that fails, or a write of this process may still be on its way that would
// make the record again, the claim stays and with it the record.
func (k *Keeper) unclaimName(ctx context.Context) {
	k.claimed = false
	ctx, cancel := k.bounded(ctx)
	defer cancel()
	e, version, err := readEras(ctx, k.owners)
	if at := slices.Index(e.Claims, k.claim()); err == nil && at >= 0 {
		e.Claims = slices.Delete(e.Claims, at, at+1)
		err = e.replace(ctx, k.owners, version)
	}
	if err != nil {
		k.opts.Logger.Debug("claim of a name left", "instance", k.instance, "cause", err)
	}
}
