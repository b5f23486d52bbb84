package function

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// run calls a function with arguments written as a JSON list.
func run(t *testing.T, name, args string) (tree.Node, error) {
	t.Helper()
	list, err := tree.Parse([]byte(args))
	if err != nil {
		t.Fatalf("%s: got %v, want no error", args, err)
	}
	var nodes []tree.Node
	for _, m := range list.Members() {
		nodes = append(nodes, m.Value)
	}
	f, ok := Lookup(name)
	if !ok {
		t.Fatalf("no function %s", name)
	}
	return f.Call(nodes, time.Unix(1508620560, 0))
}

func TestFunctions(t *testing.T) {
	for _, test := range []struct{ name, args, want string }{
		{"md5", `["abc"]`, `"900150983cd24fb0d6963f7d28e17f72"`},
		{"sha1", `["abc"]`, `"a9993e364706816aba3e25717850c26c9cd0d89d"`},
		{"hash", `["sha256","12345abcd5678efgh90ijk"]`, `"e99b13ed07a257aea1cea0d9263bfc70c6f0a8407100dd4628216caaee6345be"`},
		{"hash", `["SHA224","abc"]`, `"23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"`},
		{"hash", `["crc32b","abc"]`, `"352441c2"`},
		{"hash", `["ripemd160",""]`, `"9c1185a5c5e9fc54612808977ee8f548b2258d31"`},
		{"hash", `["ripemd160","abc"]`, `"8eb208f7e05d987a9b044a8e98c6b087f15a0bfc"`},
		{"hash", `["ripemd160","abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"]`, `"12a053384a9c0c88e405a06c27dcf49ada62eb2b"`},
		{"hash", `["ripemd160","12345678901234567890123456789012345678901234567890123456789012345678901234567890"]`, `"9b752e45573d4b39f4dbd3323cab82bf63326bfb"`},
		{"hash", `["sha512/256","abc"]`, `"53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23"`},
		{"hash", `["sha3-256","abc"]`, `"3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532"`},
		{"hash_hmac", `["md5","a","b"]`, `"5e69fae25f4b4f3e8cc5de09a8163520"`},
		{"hash_hmac", `["sha256","12345abcd5678efgh90ijk","TeaPot"]`, `"d868d581b2f2edd09e8e7ce12c00723b3fcffb6a5d74c40eae9d94181a0bf731"`},
		{"base64_encode", `["a?b>~"]`, `"YT9iPn4="`},
		{"time", `[]`, `1508620560`},
		{"date", `["Y-m-d H:i:s",1490000000]`, `"2017-03-20 08:53:20"`},
		{"date", `["Y-m-d H:i:s","1490000000"]`, `"2017-03-20 08:53:20"`},
		{"date", `["Y-m-d",false]`, `"1970-01-01"`},
		{"date", `["Y"]`, `"2017"`},
		{"strtotime", `["2017-10-04"]`, `1507075200`},
		{"strtotime", `["-7 days"]`, `1508015760`},
		{"strtotime", `["+1 day",0]`, `86400`},
		{"strtotime", `["garbage"]`, `false`},
		{"concat", `["a",1,true,false,null]`, `"a11"`},
		{"concat", `[]`, `""`},
		{"implode", `[",",["a",1,true,false,null,2.50]]`, `"a,1,1,,,2.5"`},
		{"ifempty", `["0","d"]`, `"d"`},
		{"ifempty", `[" ","z"]`, `" "`},
		{"ifempty", `[[],5]`, `5`},
		{"ifempty", `[3,"z"]`, `3`},
		{"urlencode", `["a/b c~-_."]`, `"a%2Fb+c%7E-_."`},
		{"sprintf", `["%d|%d|%d",3.9,"12abc","abc"]`, `"3|12|0"`},
		{"sprintf", `["%e",1234.5]`, `"1.234500e+3"`},
		{"sprintf", `["%'.05d",3]`, `"00003"`},
		{"sprintf", `["%2$s-%1$s %%","a","b"]`, `"b-a %"`},
		{"sprintf", `["%05d|%+d|%+d",-3,4,-4]`, `"-0003|+4|-4"`},
		{"sprintf", `["%-6s|%6s|%'*6s|%.2s","ab","ab","ab","abcd"]`, `"ab    |    ab|****ab|ab"`},
		{"sprintf", `["%.2f|%F|%5.1f",1.005,2,3.14159]`, `"1.00|2.000000|  3.1"`},
		{"sprintf", `["%b|%o|%x|%X|%c|%u",5,8,255,255,65,7]`, `"101|10|ff|FF|A|7"`},
		{"sprintf", `["%g|%G|%g",0.00001,0.00001,12.5]`, `"1.0e-5|1.0E-5|12.5"`},
		{"sprintf", `["%s%s",true,null,"surplus"]`, `"1"`},
		{"sprintf", `["%E",0.00012]`, `"1.200000E-4"`},
	} {
		got, err := run(t, test.name, test.args)
		if s := string(got.AppendJSON(nil, tree.Plain)); err != nil || s != test.want {
			t.Errorf("%s(%s) = %s, %v, want %s", test.name, test.args, s, err, test.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, test := range []struct{ name, args, want string }{
		{"md5", `[]`, "function md5 takes exactly 1 arguments, not 0"},
		{"date", `["Y",1,2]`, "function date takes 1 to 2 arguments, not 3"},
		{"sprintf", `[]`, "function sprintf takes at least 1 arguments, not 0"},
		{"md5", `[["s3cret"]]`, "function md5: argument 1 must be text, not a list"},
		{"hash", `["rot13","s3cret"]`, "function hash: argument 1 names no known algorithm"},
		{"hash_hmac", `["crc32b","a","b"]`, "function hash_hmac: argument 1 names no known algorithm"},
		{"implode", `[",","s3cret"]`, "function implode: argument 2 must be a list, not a string"},
		{"implode", `[",",[[1]]]`, "function implode: item 0 of the list must be text, not a list"},
		{"sprintf", `["%d %d",1]`, "function sprintf: the format needs at least 2 values, there are 1"},
		{"sprintf", `["%y",1]`, "function sprintf: the format has an unknown conversion at byte 0"},
		{"sprintf", `["%99999d",1]`, "function sprintf: a width or precision is above 10000"},
		{"sprintf", `["%s",{"a":1}]`, "function sprintf: argument 2 must be text, not an object"},
		{"date", `["Y","s3cret"]`, "function date: argument 2 must be a number of seconds"},
		{"ifempty", `[1]`, "function ifempty takes exactly 2 arguments, not 1"},
	} {
		_, err := run(t, test.name, test.args)
		if err == nil || err.Error() != test.want {
			t.Errorf("%s(%s): error %v, want %s", test.name, test.args, err, test.want)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want no value in it", test.name, err)
		}
	}
	if _, ok := Lookup("system"); ok {
		t.Error("there are unknown functions")
	}
	if got := len(Names()); got != 13 {
		t.Errorf("got %d functions, want the ones of the service: %v", got, Names())
	}
}
