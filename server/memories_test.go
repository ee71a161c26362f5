package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

func TestMemoriesOfRequestsWithoutARecordAreKept(t *testing.T) {
	dir := t.TempDir()
	m, problems, err := newMemories(dir)
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	for range 3 {
		if err := m.keep("t1", &api.RuleEffect{Host: "a.test", Counted: []int{1, 3}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.keep("t1", &api.RuleEffect{Host: "b.test", Revision: 2, Counted: []int{2}, State: "x", Step: 7}); err != nil {
		t.Fatal(err)
	}
	m, problems, err = newMemories(dir)
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	m.note("t1", &api.RuleEffect{Host: "a.test", Counted: []int{1}, State: "y", Step: 1})
	m.note("t9", &api.RuleEffect{Host: "a.test", Counted: []int{1}})
	m.settle(func(id string) bool { return id == "t1" })
	if a := m.recall("t1")("a.test", 0); len(a.Met) != 3 || a.Met[0] != 4 || a.Met[1] != 0 || a.Met[2] != 3 || a.State != "y" {
		t.Errorf("%+v", a)
	}
	if b := m.recall("t1")("b.test", 2); b.Met[1] != 1 || b.State != "x" || b.Step != 7 {
		t.Errorf("%+v", b)
	}
	if other := m.recall("t1")("b.test", 1); len(other.Met) > 0 {
		t.Errorf("of another revision: %+v", other)
	}
	if len(m.found) != 1 {
		t.Errorf("of whom nothing is registered: %v", m.found)
	}
	if m.served("t1"); len(m.found) > 0 {
		t.Errorf("who remembers by itself: %v", m.found)
	}
	if err := m.forget("t1"); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("left are %v", entries)
	}
}

func TestDamagedMemoriesAreSetAside(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "t1.json"), []byte(`[{"host":`), 0o600); err != nil {
		t.Fatal(err)
	}
	m, problems, err := newMemories(dir)
	if err != nil || len(problems) != 1 || !strings.Contains(problems[0], "t1") {
		t.Fatalf("%q, %v", problems, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "t1.json.damaged")); err != nil {
		t.Error(err)
	}
	if err := m.keep("t1", &api.RuleEffect{Host: "a.test", Counted: []int{1}}); err != nil {
		t.Error(err)
	}
}
