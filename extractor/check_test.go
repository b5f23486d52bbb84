package extractor_test

import (
	"crypto/md5"
	"encoding/hex"
	"strings"
	"testing"
)

// checkError wants an error that contains a text, or none when that is empty.
func checkError(t testing.TB, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("error %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want %q", err, want)
	}
}

func checkLog(t testing.TB, log, want string) {
	t.Helper()
	if !strings.Contains(log, want) {
		t.Errorf("the log has no %q:\n%s", want, log)
	}
}

// link returns a link value: the path, and the checksum of a serialised object.
func link(path, serialized string) string {
	sum := md5.Sum([]byte(serialized))
	return path + "_" + hex.EncodeToString(sum[:])
}
