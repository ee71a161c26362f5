// Command sleeper does nothing until it is stopped.
package main

import "time"

func main() { time.Sleep(24 * time.Hour) }
