package platform

import (
	"fmt"
	"strings"
)

// The keys of the database. The elements of a key are separated by NUL, which no id contains, so that all of one parent
// stand together and can be read or deleted as a range. Numbers have a fixed width, so keys sort by number.
const (
	formatKey   = "format"
	sequenceKey = "sequence"
	instanceKey = "instance" // of what tells this store from every other one
)

const sep = "\x00"

// key joins a kind and its elements. A prefix is a key that ends with an empty element.
func key(kind string, elements ...string) string { return kind + sep + strings.Join(elements, sep) }

func number(n int64) string { return fmt.Sprintf("%019d", n) }

func branchKey(id int64) string          { return key("branch", number(id)) }
func tokenKey(id int64) string           { return key("token", number(id)) }
func tokenHashKey(hash string) string    { return key("token-hash", hash) }
func bucketKey(branch, id string) string { return key("bucket", branch, id) }
func tableKey(branch, id string) string  { return key("table", branch, id) }
func fileKey(id int64) string            { return key("file", number(id)) }
func jobKey(id int64) string             { return key("job", number(id)) }
func eventKey(id int64) string           { return key("event", number(id)) }
func queueJobKey(id int64) string        { return key("queue-job", number(id)) }

// metadataKey is a note on the object that owner names.
func metadataKey(owner string, provider, name string) string {
	return key("metadata", owner, provider, name)
}

// validID reports whether an id that a user chose can be a part of a path and of a key.
func validID(id string) bool {
	return id != "" && len(id) <= 255 && !strings.ContainsAny(id, "/\x00\r\n")
}
