package flagtext

import "strings"

// Nearest returns the name that was probably meant; "" if none is near.
func Nearest(name string, known []string) (best string) {
	least := 1 + len(name)/3
	for _, k := range known {
		if distance := editDistance(plain(name), plain(k)); distance < least || distance == least && best == "" {
			best, least = k, distance
		}
	}
	return best
}

// plain removes what people write differently in names.
func plain(name string) string {
	return strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(name))
}

// editDistance counts the characters to insert, delete or replace.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
