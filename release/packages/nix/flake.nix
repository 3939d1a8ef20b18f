# Builds the program from this tree: `nix build '.?dir=release/packages/nix'` in the root of the repository.
{
  description = "Differentially private continual release of counts and sums";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
        "x86_64-darwin"
        "aarch64-darwin"
      ];
      root = ../../..;
      manifest = builtins.fromTOML (builtins.readFile (root + "/Cargo.toml"));
      each =
        result:
        builtins.listToAttrs (
          map (system: {
            name = system;
            value = result nixpkgs.legacyPackages.${system};
          }) systems
        );
    in
    {
      packages = each (pkgs: rec {
        evertally = pkgs.callPackage ./package.nix {
          src = root;
          version = manifest.workspace.package.version;
          lockFile = root + "/Cargo.lock";
        };
        default = evertally;
      });
      devShells = each (pkgs: {
        default = pkgs.mkShell {
          packages = [
            pkgs.cargo
            pkgs.clippy
            pkgs.rustc
            pkgs.rustfmt
            pkgs.python3
          ];
        };
      });
    };
}
