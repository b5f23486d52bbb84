package buffer_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
)

// Verify must find faults, not only say that all is well.
func TestVerifyFindsWhatIsWrongInStaging(t *testing.T) {
	for name, tc := range map[string]struct {
		harm func(t *testing.T, mem *buffertest.Memory, obj driver.Object)
		want string
	}{
		"missing": {func(t *testing.T, mem *buffertest.Memory, obj driver.Object) {
			must(t, mem.Delete(t.Context(), obj))
		}, "no longer in staging"},
		"fewer rows": {func(t *testing.T, mem *buffertest.Memory, obj driver.Object) {
			replace(t, mem, obj, row(0, "v"))
		}, "has other bytes than were uploaded"},
		"torn row": {func(t *testing.T, mem *buffertest.Memory, obj driver.Object) {
			replace(t, mem, obj, []byte(`"0","v`))
		}, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := buffertest.NewMemory()
				b := open(t, memoryOptions(t, mem))
				mustEnsure(t, mem)
				mem.Alter("in.c-test.a", datatype.UntypedColumns("id", "other")...)
				put(t, b, define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = driver.None }), 0, 3)
				if err := b.Sink("a").Flush(t.Context()); err == nil {
					t.Fatal("imported into other columns")
				}
				verify(t, b)
				tc.harm(t, mem, mem.Objects()[0])
				report, err := b.Verify(t.Context())
				if err != nil || report.OK() || !strings.Contains(strings.Join(report.Sinks[0].Differences, "\n"), tc.want) {
					t.Errorf("got %+v %v, want a difference that tells %q", report, err, tc.want)
				}
			})
		})
	}
}

// replace stores other bytes under the id of an object.
func replace(t *testing.T, mem *buffertest.Memory, obj driver.Object, data []byte) {
	t.Helper()
	must(t, mem.Delete(t.Context(), obj))
	must(t, mem.Put(t.Context(), obj, plainSource(data)))
}

type plainSource []byte

func (p plainSource) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(p)), nil }

func (p plainSource) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(p)
	return int64(n), err
}
