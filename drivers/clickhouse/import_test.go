package clickhouse

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/forebay/forebay/driver"
)

// recordedBodies keeps the bodies of requests by their Content-Encoding.
type recordedBodies map[string][]byte

func (b recordedBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	b[r.Header.Get("Content-Encoding")] = body
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	return http.DefaultTransport.RoundTrip(r)
}

// Encoded slices are sent as they are staged, after the statement.
func TestEncodedSlicesAreSentUnchanged(t *testing.T) {
	for _, encoding := range []driver.Encoding{driver.Gzip, driver.Zstd} {
		bodies := recordedBodies{}
		target := open(t, Options{Transport: bodies})
		f := newFile("file-1", events("events"), eventRows(1, 60)...)
		var staged []byte
		objects := map[string][]byte{}
		for i, obj := range f.Slices {
			r, err := f.OpenSlice(t.Context(), obj)
			if err != nil {
				t.Fatal(err)
			}
			rows, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			if objects[obj.ID], err = encode(encoding, string(rows)); err != nil {
				t.Fatal(err)
			}
			f.Slices[i].Encoding = encoding
			staged = append(staged, objects[obj.ID]...)
		}
		f.OpenSlice = func(_ context.Context, obj driver.Object) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(objects[obj.ID])), nil
		}
		mustImport(t, target, f)
		expectRows(t, target, f.Table.ID, eventRows(1, 60)...)
		if !bytes.HasSuffix(bodies[encoding.String()], staged) {
			t.Errorf("%s: no body ends with the %d bytes of the slices", encoding, len(staged))
		}
	}
}
