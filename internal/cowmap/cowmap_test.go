package cowmap

import (
	"strconv"
	"sync"
	"testing"
)

func TestMap(t *testing.T) {
	m := New[int]()
	if got := m.Get("1"); got != nil {
		t.Errorf("an empty map has the value %d for the id 1, want none", *got)
	}
	const n = 1000 // several in each part
	for i := range n {
		m.Put(strconv.Itoa(i), &i)
	}
	other := -1
	m.Put("7", &other)
	m.Put("8", nil)
	m.Put("9", nil)
	m.Put("9", nil)
	for id, want := range map[string]*int{"7": &other, "8": nil, "9": nil} {
		if got := m.Get(id); got != want {
			t.Errorf("the id %s has the value %v, want %v", id, got, want)
		}
	}
	seen := map[int]bool{}
	for v := range m.All() {
		seen[*v] = true
	}
	if len(seen) != n-2 || m.Len() != n-2 || !seen[-1] || seen[7] || seen[8] {
		t.Errorf("All has %d values and Len is %d, want %d: 7 was replaced by -1, and 8 and 9 were removed", len(seen), m.Len(), n-2)
	}
	for range m.All() {
		break
	}
}

// Readers see each value as it was or as it is, while one goroutine changes the map.
func TestReadersNeedNoLock(t *testing.T) {
	m := New[int]()
	first, second := 1, 2
	m.Put("a", &first)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				if got := m.Get("a"); got != &first && got != &second {
					t.Errorf("a reader got %v, want the first or the second value", got)
					return
				}
				for v := range m.All() {
					if v == nil {
						t.Error("All has a nil value")
						return
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range 1000 {
		m.Put(strconv.Itoa(i), &first)
		m.Put("a", []*int{&first, &second}[i%2])
		m.Put(strconv.Itoa(i), nil)
	}
	close(done)
	readers.Wait()
}
