package function

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"hash"
	"hash/crc32"
	"strings"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// hashes are the algorithms of hash and hash_hmac.
var hashes = map[string]func() hash.Hash{
	"md5": md5.New, "sha1": sha1.New, "sha224": sha256.New224, "sha256": sha256.New,
	"sha384": sha512.New384, "sha512": sha512.New, "sha512/224": sha512.New512_224, "sha512/256": sha512.New512_256,
	"sha3-224": func() hash.Hash { return sha3.New224() }, "sha3-256": func() hash.Hash { return sha3.New256() },
	"sha3-384": func() hash.Hash { return sha3.New384() }, "sha3-512": func() hash.Hash { return sha3.New512() },
	"ripemd160": newRIPEMD160,
}

func (c *evaluation) algorithm() func() hash.Hash {
	name := strings.ToLower(c.text(0))
	if h, ok := hashes[name]; ok {
		return h
	}
	if c.err == nil {
		c.fail("argument 1 names no known algorithm")
	}
	return nil
}

func hashOf(c *evaluation) tree.Node {
	if strings.EqualFold(c.args[0].Text(), "crc32b") {
		h := crc32.NewIEEE()
		_, _ = h.Write([]byte(c.text(1)))
		return hexText(h.Sum(nil))
	}
	h, text := c.algorithm(), c.text(1)
	if c.err != nil {
		return tree.Node{}
	}
	sum := h()
	_, _ = sum.Write([]byte(text))
	return hexText(sum.Sum(nil))
}

func hmacOf(c *evaluation) tree.Node {
	h, data, key := c.algorithm(), c.text(1), c.text(2)
	if c.err != nil {
		return tree.Node{}
	}
	mac := hmac.New(h, []byte(key))
	_, _ = mac.Write([]byte(data))
	return hexText(mac.Sum(nil))
}
