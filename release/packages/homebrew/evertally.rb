# Recipe for Homebrew. `release/manifest --fill-recipes` fills in version and checksum.
class Evertally < Formula
  desc "Differentially private continual release of counts and sums"
  homepage "https://github.com/evertally/evertally"
  url "https://github.com/evertally/evertally/releases/download/v@VERSION@/evertally-@VERSION@-source.tar.gz"
  sha256 "@SOURCE_SHA256@"
  license any_of: ["Apache-2.0", "MIT"]
  head "https://github.com/evertally/evertally.git", branch: "main"

  depends_on "rust" => :build

  def install
    system "cargo", "install", *std_cargo_args(path: "crates/cli")
    generate_completions_from_executable(bin/"evertally", "completions")
    system bin/"evertally", "man", man1
  end

  service do
    run [opt_bin/"evertally", "serve", "--config", etc/"evertally/serve.toml"]
    keep_alive crashed: true
    working_dir var
  end

  test do
    assert_equal "evertally #{version}", shell_output("#{bin}/evertally --version").strip
    (testpath/"visits.csv").write <<~CSV
      time
      2024-01-01T09:00:00
      2024-01-01T17:30:00
      2024-01-02T12:00:00
    CSV
    system bin/"evertally", "key", "new", "test.key"
    command = [bin/"evertally", "release", "visits.csv", "--key", "test.key", "--stream", "visits", "--every", "1d",
               "--start", "2024-01-01", "--end", "2024-01-04", "--epsilon", "1", "--all", "--out"]
    system(*command, "released.csv")
    rows = (testpath/"released.csv").read.lines
    assert_match(/\Atime,/, rows.first)
    assert_equal 4, rows.length
    # The key names the noise: the same release again has the same bytes.
    system(*command, "again.csv")
    assert_equal rows, (testpath/"again.csv").read.lines
  end
end
