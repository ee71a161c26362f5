package journal

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// BenchmarkAppend is one recorded exchange: body collected, line written.
func BenchmarkAppend(b *testing.B) {
	s, err := Open(Options{Dir: filepath.Join(b.TempDir(), "journal"), Quota: 1 << 40})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	j, err := s.Journal("t1")
	if err != nil {
		b.Fatal(err)
	}
	body := []byte(`{"event":"created","amount":12}`)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			sp := j.NewSpool()
			sp.Write(body)
			sp.Close()
			r := exchange("/webhook?x=1")
			r.Request.Body = j.Keep(sp)
			if err := j.Append(r); err != nil {
				b.Fatal(err)
			}
			sp.Discard()
		}
	})
}

// BenchmarkOpen is the recovery of a journal, per record.
func BenchmarkOpen(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "journal")
	s, err := Open(Options{Dir: dir, Quota: 1 << 40})
	if err != nil {
		b.Fatal(err)
	}
	j, err := s.Journal("t1")
	if err != nil {
		b.Fatal(err)
	}
	for range b.N {
		r := exchange("/webhook?x=1")
		r.Client = api.Source{IP: "198.18.0.5", Port: 40211, Service: "default"}
		r.Time = api.Time{Time: time.Unix(1, 0)}
		if err := j.Append(r); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	if s, err = Open(Options{Dir: dir}); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	if j, _ := s.Lookup("t1"); j.Status().Records != uint64(b.N) {
		b.Fatalf("%d records found, want %d", j.Status().Records, b.N)
	}
	s.Close()
}
