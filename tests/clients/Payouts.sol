// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {MerkleProof} from "@openzeppelin/contracts/utils/cryptography/MerkleProof.sol";

/// Pays the claims of one epoch: each leaf of (address, amount) below the root once, to that address, in a token of its own.
contract Payouts is ERC20 {
    bytes32 public immutable root;
    mapping(address => bool) public claimed;

    error AlreadyClaimed();
    error NotInTheTree();

    constructor(bytes32 root_, uint256 supply) ERC20("Payout", "PAY") {
        root = root_;
        _mint(address(this), supply);
    }

    function claim(address payee, uint256 amount, bytes32[] calldata proof) external {
        if (claimed[payee]) revert AlreadyClaimed();
        bytes32 leaf = keccak256(bytes.concat(keccak256(abi.encode(payee, amount))));
        if (!MerkleProof.verifyCalldata(proof, root, leaf)) revert NotInTheTree();
        claimed[payee] = true;
        _transfer(address(this), payee, amount);
    }
}
