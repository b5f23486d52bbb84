package buffer

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// Damaged lists the damage that was found and neither forgotten nor older than Tuning.DamageRetention, the store
// as a whole first, then in the order of the slices. The ledger counts its rows forever.
func (b *Buffer) Damaged(ctx context.Context) ([]Damage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	st := b.store.Opening()
	if err := st.Read(); err != nil {
		return nil, fmt.Errorf("buffer: list damage: %w", err)
	}
	defer st.Release()
	list, err := listDamage(st.DB)
	if err != nil {
		return nil, fmt.Errorf("buffer: list damage: %w", err)
	}
	return list, nil
}

func listDamage(db *pebble.DB) (list []Damage, err error) {
	err = eachRecord(db, format.PrefixDamage, func(key, value []byte) error {
		var d format.Damage
		if err := format.Decode(value, &d); err != nil {
			return pebblestore.Damaged("damage record %x: %w", key, err)
		}
		d.ID = hex.EncodeToString(key)
		list = append(list, Damage(d))
		return nil
	})
	return list, err
}

// ErrUnknownDamage is returned by [Buffer.ForgetDamage] for an id that [Buffer.Damaged] does not list.
var ErrUnknownDamage = errors.New("no such record of damage")

// ForgetDamage removes records of damage that an operator has read, with what could be read of the rows, by the ids of
// [Buffer.Damaged]. The ledger stays as it is. If some ids are not listed, ForgetDamage removes the other records and returns an
// error that matches [ErrUnknownDamage].
//
// A store that was set aside as a whole ([Damage.Store]) is a folder of the data directory. Delete it by hand.
func (b *Buffer) ForgetDamage(ctx context.Context, ids ...string) error {
	list, err := b.Damaged(ctx)
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(list))
	for i := range list {
		known[list[i].ID] = true
	}
	var keys [][]byte
	var unknown error
	for _, id := range ids {
		key, err := hex.DecodeString(id)
		if err != nil || !known[id] {
			unknown = errors.Join(unknown, fmt.Errorf("%w: %q", ErrUnknownDamage, id))
			continue
		}
		keys = append(keys, append([]byte{format.PrefixDamage}, key...))
	}
	return errors.Join(b.forgetDamage(ctx, keys), unknown)
}

func (b *Buffer) forgetDamage(ctx context.Context, keys [][]byte) error {
	if len(keys) == 0 {
		return nil
	}
	err := b.do(ctx, func(t *txn) {
		t.addToBatch(func(batch *pebble.Batch) {
			for _, key := range keys {
				_ = batch.Delete(key, nil) // a plain batch cannot fail
			}
		})
	})
	if err == nil {
		b.countDamage(ctx)
	}
	return err
}

// countDamage makes the number of records for the metrics again.
func (b *Buffer) countDamage(ctx context.Context) {
	if list, err := b.Damaged(ctx); err == nil {
		b.damages.Store(int64(len(list)))
	}
}

// queueExpireDamage asks for the records of damage that are older than Tuning.DamageRetention to be removed.
func (b *Buffer) queueExpireDamage() {
	b.cleanups.add(0, job{run: b.expireDamage}) // no sink has the number 0
}

func (b *Buffer) expireDamage(ctx context.Context) {
	list, err := b.Damaged(ctx)
	if err != nil {
		return // the next opening repeats it
	}
	var (
		keys [][]byte
		next time.Time
	)
	now := b.now()
	for _, d := range list {
		end := d.At.Add(b.opts.DamageRetention)
		if end.After(now) {
			if next.IsZero() || end.Before(next) {
				next = end
			}
			continue
		}
		if key, err := hex.DecodeString(d.ID); err == nil {
			keys = append(keys, append([]byte{format.PrefixDamage}, key...))
		}
	}
	if err := b.forgetDamage(ctx, keys); err != nil {
		return
	}
	if len(keys) > 0 {
		b.log.Info("damage records expired", "records", len(keys))
	}
	if !next.IsZero() {
		b.timers.Set(timerKey{kind: timerDamage}, next)
	}
}
