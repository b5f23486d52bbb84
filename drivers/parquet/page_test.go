package parquet

import (
	"bytes"
	endian "encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/internal/synctest"
)

// The bounds of a page equal the result of comparing all values.
func TestBoundsOfAPage(t *testing.T) {
	rng := seedtest.Rand(t)
	alphabets := []string{"a", "ab", "ab\x00\xff", "0123456789"}
	for range 3000 {
		prefix, alphabet := strings.Repeat("p", rng.IntN(20)), alphabets[rng.IntN(len(alphabets))]
		text := func(n int) []byte {
			out := []byte(prefix)
			for range n {
				out = append(out, alphabet[rng.IntN(len(alphabet))])
			}
			return out[rng.IntN(len(out)+1)/20*len(prefix):] // few are without the prefix
		}
		long := rng.IntN(2) * rng.IntN(20)
		for _, of := range []datatype.Type{datatype.String, datatype.Bytes, datatype.UUID, datatype.Decimal(38, 0)} {
			c, p, naive := newColumn("c", datatype.Column{Type: of}, datatype.Column{Type: of}), new(page), bounds{}
			for range rng.IntN(50) {
				v := text(rng.IntN(10) + long)
				if c.store == fixed {
					v = append(v, make([]byte, 16)...)[:16]
					if rng.IntN(2) == 0 {
						v[0] ^= 0x80
					}
					p.data = append(p.data, v...)
				} else {
					p.addText(v)
				}
				p.rows++
				naive.add(&c, v)
			}
			if got, want := c.boundsOf(p), naive.cut(&c); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: got %q, want %q, of %q", of, got, want, p.data)
			}
		}
	}
}

// A dictionary gives each text of a page its own place, whichever slots they share.
func TestDictionaryHasEachText(t *testing.T) {
	rng := seedtest.Rand(t)
	c := newColumn("c", datatype.Column{Type: datatype.String}, datatype.Column{Type: datatype.String})
	d := &dictionary{places: make(map[string]int32)}
	for range 5 {
		p := new(page)
		var want []string
		for range 5000 {
			text := fmt.Sprintf("%0*d", rng.IntN(4), rng.IntN(1500)) // more than there are slots
			if rng.IntN(9) == 0 {
				text = ""
			}
			p.addText([]byte(text))
			p.rows++
			want = append(want, text)
		}
		b, ok := d.add(&c, p)
		if want := c.boundsOf(p); !ok || !bytes.Equal(b.least, want.least) || !bytes.Equal(b.most, want.most) {
			t.Fatalf("bounds %q, want %q, %v", b, want, ok)
		}
		for i, place := range d.page {
			if d.texts[place] != want[i] {
				t.Fatalf("%q has the place of %q, want %v", want[i], d.texts[place], want[i])
			}
		}
		if len(d.page) != len(want) || len(d.places) != len(d.texts) {
			t.Fatalf("%d places of %d texts, %d are different, of those %d have a place", len(d.page), len(want), len(d.texts), len(d.places))
		}
	}
	n := 0
	for data := d.data; len(data) > 0; n++ {
		text := data[4:][:endian.LittleEndian.Uint32(data)]
		if string(text) != d.texts[n] {
			t.Fatalf("text %d is %q, want %q", n, text, d.texts[n])
		}
		data = data[4+len(text):]
	}
}

// Pages that wait for the encoder have at most inFlight bytes, whatever their size. After an error no caller waits.
func TestEncoderBoundsWhatWaits(t *testing.T) {
	for _, size := range []int{0, 100, unitBytes, pageBytes, inFlight, 1 << 30} {
		for _, failure := range []error{nil, errors.New("the disk is full")} {
			synctest.Test(t, func(t *testing.T) {
				e, begin := startEncoder(new(sparePages)), make(chan struct{})
				queued, done, ended := 0, 0, make(chan error, 1)
				const jobs = 500
				go func() {
					for range jobs {
						if err := e.doPage(size, func() error { <-begin; done++; return failure }); err != nil {
							ended <- err
							return
						}
						queued++
					}
					ended <- nil
				}()
				synctest.Wait()
				if most := inFlight / max(size, 1); queued == 0 || queued > max(most, 1) || size >= unitBytes && queued < most/2 {
					t.Errorf("%d pages of %d bytes wait", queued, size)
				}
				close(begin)
				if err := <-ended; err != nil && !errors.Is(err, failure) || err == nil && queued != jobs {
					t.Errorf("%d jobs are queued, %v", queued, err)
				}
				if err := e.wait(); !errors.Is(err, failure) || failure == nil && done != jobs || failure != nil && done != 1 {
					t.Errorf("%d jobs are done, %v, want %v", done, err, failure)
				}
			})
		}
	}
}
