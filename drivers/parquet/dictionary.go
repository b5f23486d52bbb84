package parquet

import (
	endian "encoding/binary"
)

// dictionary has the distinct texts of a column in a row group.
type dictionary struct {
	places map[string]int32
	data   []byte     // the texts as PLAIN has them
	texts  []string   // by place
	used   []bool     // by place, whether the page has it
	recent [256]int32 // 1 + a place, by slot
	page   []int32    // the places of a page's texts
}

// maxDictionary bounds data.
const maxDictionary = 1 << 20

// repeats reports whether the texts of a page repeat so much that a dictionary pays. A dictionary costs CPU, and with unique texts also space.
// Only the first texts are looked at.
func repeats(p *page) bool {
	const few, first = 64, 1024
	distinct := make(map[string]struct{}, few)
	n := 0
	for text := range p.texts {
		if n++; n > first {
			break
		}
		if _, ok := distinct[string(text)]; ok {
			continue
		}
		if distinct[string(text)] = struct{}{}; len(distinct) > few {
			return false
		}
	}
	return len(distinct) <= min(n, first)/4
}

// add sets d.page, and returns the bounds of the page. It reports false if the dictionary would be too large.
func (d *dictionary) add(c *column, p *page) (b bounds, ok bool) {
	d.page = d.page[:0]
	clear(d.used)
	for text := range p.texts {
		at := slot(text)
		place := d.recent[at] - 1
		if place < 0 || d.texts[place] != string(text) {
			var ok bool
			if place, ok = d.place(text); !ok {
				return b, false
			}
			d.recent[at] = place + 1
		}
		d.used[place] = true
		d.page = append(d.page, place)
	}
	for place, used := range d.used {
		if used {
			b.add(c, []byte(d.texts[place]))
		}
	}
	return b.cut(c), true
}

// place returns the place of a text, which it adds if it is new. It reports false if the dictionary would be too large.
func (d *dictionary) place(text []byte) (place int32, ok bool) {
	if place, ok = d.places[string(text)]; ok {
		return place, true
	}
	if len(d.data)+4+len(text) > maxDictionary {
		return 0, false
	}
	place = int32(len(d.texts))
	own := string(text)
	d.places[own] = place
	d.texts, d.used = append(d.texts, own), append(d.used, false)
	d.data = append(endian.LittleEndian.AppendUint32(d.data, uint32(len(text))), text...)
	return place, true
}

// slot is where recent has a text. A look there takes a third of the time of one in places.
func slot(text []byte) uint8 {
	if len(text) == 0 {
		return 0
	}
	return uint8(len(text)) + text[0]*31 + text[len(text)-1]*7 + text[len(text)/2]
}
