package instance

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
)

// An adopter that gives an instance up stalls before the call that creates another log, until the next adopter has retired the
// instance. The log that it creates then does not stay. It goes with the end of the adopter, or, if that dies after the call, when a node starts.
func TestLogIsCreatedAfterItsInstanceHasEnded(t *testing.T) {
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprint("dies ", dies), func(t *testing.T) {
			inWorld(t, func(w *world, a, b, c *worldNode) {
				name, behind, _ := w.abandon(a)
				w.holesIn(name, behind+1, 0, 1, 2)
				w.await("the record says that the instance is damaged", func() bool { return w.records()[name].State == changelog.Damaged })
				p := b.runs
				var stands, created atomic.Bool
				dead := make(chan struct{})
				p.setHooks(func(call string) error {
					if call == "log create" && stands.CompareAndSwap(false, true) {
						p.stop()
					}
					return nil
				}, func(call string) error {
					if call != "log create" || !created.CompareAndSwap(false, true) {
						return nil
					}
					if logs := w.logsOf(name); fmt.Sprint(logs) != "[1]" {
						t.Errorf("the instance is retired, and there are the logs %d", logs)
					}
					if dies {
						b.kill(nil, false)
						close(dead)
						return errDead
					}
					return nil
				})
				w.giveUp(name)
				w.await("the adopter stands still", stands.Load)
				c.start()
				w.await("the instance is retired", func() bool { return w.records()[name].State == changelog.Retired })
				if logs := w.logsOf(name); len(logs) > 0 {
					t.Errorf("the logs %d of the retired instance are left", logs)
				}
				p.resume()
				w.await("the log is created", created.Load)
				if dies {
					<-dead
					b.start()
				}
				w.await("no log of the instance is left", func() bool { return len(w.logsOf(name)) == 0 })
			})
		})
	}
}

// An owner is fenced while it begins another log. What it asks the servers then arrives late. An operator has given the instance up meanwhile,
// and the next owner has found that log and uses it.
func TestFencedOwnerLeavesALogThatIsUsed(t *testing.T) {
	alone(t, func(w *world, n *worldNode) {
		name := n.instance()
		n.runs.checkpoint()
		n.stop()
		w.processes.Wait()
		w.loseLog(name)
		other := w.node("b")
		other.start().opened()
		p := n.start()
		var stands, deletes atomic.Bool
		p.setHooks(func(call string) error {
			if strings.HasPrefix(call, "put ckpt-") && stands.CompareAndSwap(false, true) {
				p.stop()
			}
			return nil
		}, nil)
		w.await("the owner stands still", stands.Load)
		w.await("the instance is damaged", func() bool { return w.records()[name].State == changelog.Damaged })
		p.setHooks(func(call string) error {
			if call == "log delete" && deletes.CompareAndSwap(false, true) {
				return fmt.Errorf("%w: it is still on its way", changelog.ErrUnknown)
			}
			return nil
		}, nil)
		p.resume()
		w.await("the owner is fenced", func() bool { i := p.open(); return deletes.Load() || i != nil && i.Keeper().Instance() != name })
		other.runs.setHooks(func(call string) error {
			if strings.HasPrefix(call, "delete ") || strings.HasPrefix(call, "import ") || strings.HasPrefix(call, "put ") && !strings.HasPrefix(call, "put ckpt-") {
				return errors.New("away")
			}
			return nil
		}, nil)
		w.giveUp(name)
		w.await("the next owner uses the new log", func() bool {
			o := w.records()[name]
			return o.Generation == 1 && o.State == changelog.Draining
		})
		if deletes.Load() {
			w.loseLog(changelog.Owner{Generation: 1}.LogName(name))
		}
		time.Sleep(worldLease)
		if logs := w.logsOf(name); len(logs) == 0 || logs[len(logs)-1] != 1 {
			t.Errorf("there are the logs %d; an owner uses 1", logs)
		}
		other.runs.setHooks(nil, nil)
		w.await("the instance is retired", func() bool { return w.records()[name].State == changelog.Retired })
		if logs := w.logsOf(name); len(logs) > 0 {
			t.Errorf("the logs %d of the retired instance are left", logs)
		}
	})
}
