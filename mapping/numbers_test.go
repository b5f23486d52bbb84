package mapping

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/casetest"
)

// operands are numbers at which arithmetic may go wrong: zeros of both signs, integers that a shortcut may take, and values at
// the ends of the range of a 64-bit float.
var operands = strings.Fields(`0 -0 1 -1 2 -3 64 0.5 -0.5 2.5 5e-324 -5e-324 1e-7
	9007199254740991 -9007199254740991 9007199254740993 1e17 1e308 -1e308`)

// numberTemplates are all operators and functions of numbers, of x = Body('x') and y = Body('y').
func numberTemplates() (unary, binary []string) {
	for _, op := range strings.Fields("- + ~") {
		unary = append(unary, op+"x", op+"("+op+"x)", "''+"+op+"x")
	}
	for _, f := range strings.Fields(`abs sign floor ceil round sqrt sin cos tan asin acos atan exp log log2 log10 mantissa exponent deg2rad rad2deg
		isEven isOdd isInteger isDecimal type toString char manifestJson manifestYamlDoc manifestPython`) {
		unary = append(unary, "std."+f+"(x)")
	}
	for _, f := range strings.Fields(`sum avg minArray maxArray sort set reverse manifestJsonMinified manifestYamlStream`) {
		unary, binary = append(unary, "std."+f+"([x])"), append(binary, "std."+f+"([x, y])", "std."+f+"([-x, 0 * y, y])")
	}
	for _, f := range strings.Fields("d 5.2f g x #o i e +05d s c .3g G E") {
		unary = append(unary, "'%"+f+"' % x")
	}
	unary = append(unary, "[5, 6][x]", "'ab'[x]", "[5, 6][x:]", "'ab'[:x]", "[5, 6][::x]", "{[x]: 1}", "{['a' + x]: 1}", "std.substr('ab', x, 1)",
		"std.substr('ab', 0, x)", "std.splitLimit('a,b,c', ',', x)", "std.removeAt([5, 6], x)", "std.find(x, [1, 0, -0])", "std.member([0], x)",
		"std.parseJson('[' + x + ']')", "std.parseYaml('' + x)", "std.parseInt('' + x)", "std.manifestTomlEx({a: x}, '')", "std.manifestXmlJsonml(['a', {b: x}])",
		"std.clamp(x, -1, 1)", "std.clamp(x, 0, 0)", "std.uniq([x], null)", "std.toString({a: x})", "std.mergePatch({a: 1}, {a: x})", "if x == 0 then -x else x")
	for _, op := range strings.Fields("+ - * / % & | ^ << >> < <= > >= == !=") {
		binary = append(binary, "x "+op+" y")
	}
	for _, f := range strings.Fields("max min pow mod modulo hypot atan2 equals primitiveEquals __compare") {
		binary = append(binary, "std."+f+"(x, y)")
	}
	return unary, append(binary, "[x] < [y]", "[x] == [y]", "{a: x} == {a: y}", "std.uniq([x, y])", "std.setUnion([x], [y])", "std.setInter([x], [y])", "std.setDiff([x], [y])",
		"std.foldl(function(a, b) a * b, [x, y], -1)", "std.setMember(x, [y])", "std.sqrt(std.mod(x, y))", "std.count([x, y], x)")
}

func TestNumbersAreThoseOfTheReference(t *testing.T) {
	skipUnderRace(t)
	// A second operand shows in its sign, as zero and as one.
	seconds := strings.Fields("-0 -2 0 1 0.5")
	seconds = seconds[:casetest.Of(5, 2, 2)]
	unary, binary := numberTemplates()
	for i, content := range append(unary, binary...) {
		ys := seconds
		if i < len(unary) {
			ys = ys[:1]
		}
		t.Run(content, func(t *testing.T) {
			p := newPair("local x = Body('x'), y = Body('y'); " + content)
			for _, x := range operands {
				for _, y := range ys {
					r := sampleRecord()
					r.Body = fmt.Appendf(nil, `{"x":%s,"y":%s}`, x, y)
					p.sameOrFail(t, r)
				}
			}
		})
	}
}
