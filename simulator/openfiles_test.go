package simulator

import "testing"

func TestTheLimitOfOpenFilesIsReadAsTheKernelShowsIt(t *testing.T) {
	const head = "Limit                     Soft Limit           Hard Limit           Units     \nMax processes             61440                61440                processes \n"
	for text, want := range map[string]int64{
		head + "Max open files            20000                65536                files     \n": 20000,
		head + "Max open files            unlimited            unlimited            files     \n": 0,
		head:             0,
		"Max open files": 0,
		"":               0,
	} {
		if got := openFilesLimit(text); got != want {
			t.Errorf("%d, want %d, in %q", got, want, text)
		}
	}
}
