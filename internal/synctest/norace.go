//go:build !race

package synctest

func oneProcessor() (end func()) { return func() {} }
