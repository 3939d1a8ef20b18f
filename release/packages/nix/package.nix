# Package for Nix. The flake passes its own tree as `src`. `release/manifest --fill-recipes` writes a copy for Nixpkgs
# that has version, hash and Cargo.lock of a release.
{
  lib,
  stdenv,
  rustPlatform,
  fetchurl,
  installShellFiles,
  version ? "@VERSION@",
  lockFile ? ./Cargo.lock,
  src ? fetchurl {
    url = "https://github.com/evertally/evertally/releases/download/v${version}/evertally-${version}-source.tar.gz";
    hash = "@SOURCE_SRI@";
  },
}:
rustPlatform.buildRustPackage {
  pname = "evertally";
  inherit version src;
  cargoLock = { inherit lockFile; };

  cargoBuildFlags = [
    "--package=evertally-cli"
    "--bin=evertally"
  ];
  # The tests of the workspace take much longer than the build; `installCheckPhase` tries the program.
  doCheck = false;

  nativeBuildInputs = [ installShellFiles ];
  postInstall = lib.optionalString (stdenv.buildPlatform.canExecute stdenv.hostPlatform) ''
    installShellCompletion --cmd evertally \
      --bash <($out/bin/evertally completions bash) \
      --fish <($out/bin/evertally completions fish) \
      --zsh <($out/bin/evertally completions zsh)
    $out/bin/evertally man pages
    installManPage pages/*.1
  '';

  doInstallCheck = stdenv.buildPlatform.canExecute stdenv.hostPlatform;
  installCheckPhase = ''
    test "$($out/bin/evertally --version)" = "evertally ${version}"
  '';

  meta = {
    description = "Differentially private continual release of counts and sums";
    homepage = "https://github.com/evertally/evertally";
    changelog = "https://github.com/evertally/evertally/blob/v${version}/CHANGELOG.md";
    license = with lib.licenses; [
      asl20
      mit
    ];
    mainProgram = "evertally";
    platforms = lib.platforms.unix;
  };
}
