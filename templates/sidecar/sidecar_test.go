package sidecar

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the expected files")

// longName is a hostname of 253 characters, the most there can be.
func longName(i int) string {
	head := fmt.Sprintf("h%d.", i)
	label := strings.Repeat("a", 63) + "."
	tail := ".example.com"
	body := strings.Repeat(label, 4)[:253-len(head)-len(tail)]
	return head + strings.TrimSuffix(body, ".") + strings.Repeat("b", len(body)-len(strings.TrimSuffix(body, "."))) + tail
}

func cases() map[string]Config {
	largest := Config{Dir: "/etc/edge"}
	for i := range 500 {
		largest.Hosts = append(largest.Hosts, Host{Name: longName(i), Certificate: fmt.Sprint(i), Upstream: "x0123456789abcdef", Port: 65535})
	}
	return map[string]Config{
		"one": {Dir: "/etc/edge", Hosts: []Host{{Name: "api.example.com", Certificate: "0", Upstream: "x01", Port: 3000}}},
		"several": {Dir: "/etc/edge", IPv6: true, Resolve6: true, Hosts: []Host{
			{Name: "api.example.com", Certificate: "0", Upstream: "x01", Port: 3000},
			{Name: "admin.example.com", Certificate: "1", Upstream: "x01", Port: 3001},
			{Name: "xn--bcher-kva.example", Certificate: "2", Upstream: "x02", Port: 80},
		}},
		"largest": largest,
	}
}

func TestConfigurationsAreAsExpected(t *testing.T) {
	for name, c := range cases() {
		got, err := Render(c)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if name == "largest" {
			if n := strings.Count(string(got), "server_name "); n != 501 || len(longName(499)) != 253 {
				t.Errorf("%d servers, names of %d characters", n, len(longName(499)))
			}
			if !strings.Contains(string(got), "server_names_hash_bucket_size 2048;") || !strings.Contains(string(got), "server_names_hash_max_size 2048;") {
				t.Errorf("sizes of the largest configuration are not in it")
			}
			continue
		}
		golden := filepath.Join("testdata", name+".conf")
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s differs from %s; go test ./templates/sidecar -update rewrites it\n%s", name, golden, got)
		}
	}
}

func TestNothingButNamesGetsIntoAConfiguration(t *testing.T) {
	fine := Host{Name: "a.example", Certificate: "0", Upstream: "x", Port: 1}
	for what, change := range map[string]func(*Config){
		"a directive in a name":     func(c *Config) { c.Hosts[0].Name = "a; include /etc/passwd" },
		"a variable":                func(c *Config) { c.Hosts[0].Upstream = "$host" },
		"a regular expression":      func(c *Config) { c.Hosts[0].Name = "~." },
		"a wildcard":                func(c *Config) { c.Hosts[0].Name = "*.example" },
		"a new line":                func(c *Config) { c.Hosts[0].Name = "a\nb" },
		"a path for a certificate":  func(c *Config) { c.Hosts[0].Certificate = "../x" },
		"capitals":                  func(c *Config) { c.Hosts[0].Name = "A.example" },
		"nothing":                   func(c *Config) { c.Hosts[0].Upstream = "" },
		"no port":                   func(c *Config) { c.Hosts[0].Port = 0 },
		"a host twice":              func(c *Config) { c.Hosts = append(c.Hosts, fine) },
		"a directory with a blank":  func(c *Config) { c.Dir = "/a b" },
		"a directory that is none":  func(c *Config) { c.Dir = "etc" },
		"a name that is too long":   func(c *Config) { c.Hosts[0].Name = strings.Repeat("a", 254) },
		"an upstream with a port":   func(c *Config) { c.Hosts[0].Upstream = "x:80" },
		"a certificate in brackets": func(c *Config) { c.Hosts[0].Certificate = "{0}" },
	} {
		c := Config{Dir: "/etc/edge", Hosts: []Host{fine}}
		change(&c)
		if got, err := Render(c); err == nil {
			t.Errorf("%s: no error, but %d bytes", what, len(got))
		}
	}
}

func TestSizesGrowWithTheNames(t *testing.T) {
	for _, c := range []struct{ length, count, bucket, hash int }{
		{1, 1, 128, 1024}, {20, 1, 256, 1024}, {63, 256, 512, 1024}, {253, 257, 2048, 2048}, {253, 500, 2048, 2048}, {10, 5000, 128, 32768},
	} {
		hosts := make([]Host, c.count)
		hosts[0].Name = strings.Repeat("a", c.length)
		if b, h := bucketSize(hosts), hashSize(len(hosts)); b != c.bucket || h != c.hash {
			t.Errorf("%d names of %d: bucket %d, hash %d; want %d, %d", c.count, c.length, b, h, c.bucket, c.hash)
		}
	}
}
